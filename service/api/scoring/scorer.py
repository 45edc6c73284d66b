"""Scores sentences with the thresholds that the stream has learned; changes no statistics. The results are JSON."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import to_json

from service.api.batching.results import BatchedInference, Timing
from service.api.http.problems import OverloadedError
from service.api.http.threads import run_in_thread
from service.contracts.probabilities import CLASSES_FIELD
from service.errors import InferenceError, InvalidInput
from service.judging.class_source import get_external_classes, to_word_probs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.backend import ScoringBackend
    from service.contracts import LabelledSentence
    from service.inference.classifier import Classifier, InferenceResult, WordProbs
    from service.inference.model.folder import ModelFolder
    from service.inference.pooling import Pooling
    from service.judging.judge import Judge
    from service.judging.types import Prediction
    from service.stream.state.context import JudgingContext

    Answer = bytes | InvalidInput | InferenceError
    ContextKey = tuple[str, tuple[str, ...] | None]  # dataset, class list of the probabilities sent with sentences

SENTENCES_PER_YIELD = 16  # then the event loop serves other requests


class ScoreOptions(NamedTuple):
    """What a request overrides in the settings of its datasets; None: not overridden."""

    method: str | None = None
    token_score: str | None = None


class ScoringResult(NamedTuple):
    """For each sentence its assessment as JSON, or an error; with the contexts used and the time taken.

    `contexts` has one per dataset: that of its first sentence, if others are of another class list.
    """

    answers: Sequence[Answer]
    contexts: dict[str, JudgingContext]
    timing: Timing
    judge_seconds: float

    @property
    def server_timing(self) -> str:
        """The value of the `Server-Timing` header, in milliseconds."""
        queue, tokenize, inference = self.timing.queue, self.timing.tokenize, self.timing.inference
        return (
            f"queue;dur={1e3 * queue:.3f}, tokenize;dur={1e3 * tokenize:.3f}, "
            f"inference;dur={1e3 * inference:.3f}, judge;dur={1e3 * self.judge_seconds:.3f}"
        )


class _MappedSentence(NamedTuple):
    """A sentence whose labels have classes, and what it is judged with."""

    sentence: LabelledSentence
    class_ids: list[int]
    context: JudgingContext


class Scorer:
    """Must be used in the event loop's thread only."""

    def __init__(self, backend: ScoringBackend) -> None:
        self._backend = backend

    def get_context(
        self, dataset: str, options: ScoreOptions, classes: tuple[str, ...] | None = None
    ) -> JudgingContext:
        """What sentences of the dataset are judged with now. Raises `InvalidInput` for unknown options.

        `classes`: the class list, if probabilities are sent with the sentences.
        """
        context = self._backend.state_view.get_context(dataset, classes)
        return context.with_scores(method=options.method, token_score=options.token_score)

    async def score(
        self, sentences: Sequence[LabelledSentence], options: ScoreOptions, *, request_id: str, wait: bool = False
    ) -> ScoringResult:
        """One answer per sentence. A full queue raises `OverloadedError`; with `wait` the call waits for space."""
        contexts: dict[ContextKey, JudgingContext] = {}
        answers: list[Answer | None] = []
        to_judge: dict[int, _MappedSentence] = {}
        for index, sentence in enumerate(sentences):
            key = sentence.dataset, get_external_classes(sentence)
            try:
                if key not in contexts:
                    if contexts:  # building one takes time: the event loop serves other requests in between
                        await asyncio.sleep(0)
                    contexts[key] = self.get_context(sentence.dataset, options, key[1])
            except InvalidInput as error:
                if error.field != CLASSES_FIELD:  # of the request, not of this sentence
                    raise
                answers.append(error)
                continue
            try:
                class_ids = _map_labels(sentence, contexts[key].judge)
            except InvalidInput as error:
                answers.append(error)
            else:
                answers.append(None)
                to_judge[index] = _MappedSentence(sentence, class_ids, contexts[key])
        inferred = await self._infer(list(to_judge.values()), wait=wait)
        started = time.perf_counter()
        shared_fields = _render_shared_fields(request_id)
        for count, (index, words) in enumerate(zip(to_judge, inferred.answers, strict=True), 1):
            answers[index] = _judge_words(to_judge[index], words, shared_fields)
            if count % SENTENCES_PER_YIELD == 0:
                await asyncio.sleep(0)
        by_dataset: dict[str, JudgingContext] = {}
        for (dataset, _), context in contexts.items():
            by_dataset.setdefault(dataset, context)
        return self._build_result(
            [answer for answer in answers if answer is not None], by_dataset, inferred.timing, started
        )

    async def score_sentence(
        self, sentence: LabelledSentence, options: ScoreOptions, *, request_id: str
    ) -> ScoringResult:
        """As `score`, for one sentence. Raises `InvalidInput` for one that can't be judged."""
        context = self.get_context(sentence.dataset, options, get_external_classes(sentence))
        mapped = _MappedSentence(sentence, _map_labels(sentence, context.judge), context)
        timing = Timing()
        words: InferenceResult
        if sentence.probabilities is not None:
            words = to_word_probs(sentence.probabilities)
        else:
            judge = context.judge
            inferred = await self._run_model((sentence.tokens,), judge.folder, judge.settings.pooling, wait=False)
            [words], timing = inferred.answers, inferred.timing
        started = time.perf_counter()
        answer = _judge_words(mapped, words, _render_shared_fields(request_id))
        return self._build_result((answer,), {sentence.dataset: context}, timing, started)

    def _build_result(
        self, answers: Sequence[Answer], contexts: dict[str, JudgingContext], timing: Timing, started: float
    ) -> ScoringResult:
        """`started`: when the sentences were first judged."""
        judge_seconds = time.perf_counter() - started
        self._backend.telemetry.observe_stages(
            "api",
            {
                "queue": timing.queue,
                "tokenize": timing.tokenize,
                "inference": timing.inference,
                "judge": judge_seconds,
            },
        )
        return ScoringResult(answers, contexts, timing, judge_seconds)

    async def predict(self, sentences: Sequence[LabelledSentence]) -> list[Prediction | InvalidInput | InferenceError]:
        """What the model finds in sentences of one dataset, whatever their labels."""
        context = self.get_context(sentences[0].dataset, ScoreOptions())
        mapped: dict[int, _MappedSentence] = {}
        answers: dict[int, Prediction | InvalidInput | InferenceError] = {}
        for index, sentence in enumerate(sentences):
            try:
                mapped[index] = _MappedSentence(sentence, _map_labels(sentence, context.judge), context)
            except InvalidInput as error:
                answers[index] = error
        inferred = await self._infer(list(mapped.values()), wait=False)
        for count, ((index, each), words) in enumerate(zip(mapped.items(), inferred.answers, strict=True), 1):
            if isinstance(words, InferenceError):
                answers[index] = words
            else:
                observation = context.judge.observe(each.sentence, words, class_ids=each.class_ids)
                answers[index] = context.judge.predict(observation, context.threshold_set)
            if count % SENTENCES_PER_YIELD == 0:
                await asyncio.sleep(0)
        return [answers[index] for index in range(len(sentences))]

    async def _infer(self, sentences: Sequence[_MappedSentence], *, wait: bool) -> BatchedInference:
        """Runs together the sentences whose datasets use the same model and pooling. Those with probabilities are not run."""
        by_model: dict[tuple[ModelFolder | None, Pooling | None], list[int]] = {}
        answers: dict[int, InferenceResult] = {}
        for index, (sentence, _, context) in enumerate(sentences):
            if sentence.probabilities is not None:
                answers[index] = to_word_probs(sentence.probabilities)
            else:
                by_model.setdefault((context.judge.folder, context.judge.settings.pooling), []).append(index)
        timings: list[Timing] = []
        for (folder, pooling), indexes in by_model.items():
            tokens = [sentences[index].sentence.tokens for index in indexes]
            inferred = await self._run_model(tokens, folder, pooling, wait=wait)
            answers |= zip(indexes, inferred.answers, strict=True)
            timings.append(inferred.timing)
        return BatchedInference([answers[index] for index in range(len(sentences))], Timing.sum(timings))

    async def _run_model(
        self, tokens: Sequence[Sequence[str]], folder: ModelFolder | None, pooling: Pooling | None, *, wait: bool
    ) -> BatchedInference:
        classifier = await self._get_classifier(folder)
        try:
            return await self._backend.batcher.infer(tokens, classifier=classifier, pooling=pooling, wait=wait)
        except OverloadedError:
            self._backend.telemetry.count_overload()
            raise

    async def _get_classifier(self, folder: ModelFolder | None) -> Classifier | None:
        """The classifier of the folder. Loading it takes seconds, so a thread does."""
        models = self._backend.models
        if folder is None or folder is models.default:
            return None
        return models.find_classifier(folder) or await run_in_thread(models.get_classifier, folder)


def _map_labels(sentence: LabelledSentence, judge: Judge) -> list[int]:
    """The classes of the given labels. Raises `InvalidInput` for what can be refused without running the model."""
    if sentence.deleted:
        raise InvalidInput("a deleted sentence has nothing to score: leave it out", field="deleted")
    return judge.to_class_ids(sentence)


def _render_shared_fields(request_id: str) -> bytes:
    """The last fields of all assessments of a request, with the closing brace."""
    return b"," + to_json({"scored_at": datetime.now(UTC), "request_id": request_id})[1:]


def _judge_words(mapped: _MappedSentence, words: InferenceResult, shared_fields: bytes) -> Answer:
    return words if isinstance(words, InferenceError) else _render_assessment(mapped, words) + shared_fields


def _render_assessment(mapped: _MappedSentence, words: WordProbs) -> bytes:
    """The assessment as JSON without its closing brace."""
    sentence, class_ids, context = mapped
    observation = context.judge.observe(sentence, words, class_ids=class_ids)
    evidence = context.judge.memory.gather(observation, context.memories)
    scores = context.judge.score_words(observation, context.threshold_set, evidence=evidence)
    if scores.reason == "update":  # the reason is for the review queue, and this sentence does not enter it
        scores = replace(scores, reason="scored")
    assessment = context.judge.build_assessment(observation, scores, context.threshold_set)
    if evidence is not None:
        assessment = assessment.model_copy(update={"memory": "merged"})
    return assessment.model_dump_json(exclude_none=True).encode()[:-1]
