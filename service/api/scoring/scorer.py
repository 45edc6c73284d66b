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
from service.errors import InferenceError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.backend import Backend
    from service.contracts import LabelledSentence
    from service.inference.classifier import InferenceResult, WordProbs
    from service.inference.pooling import Pooling
    from service.judging.judge import Judge
    from service.stream.state.context import JudgingContext

SENTENCES_PER_YIELD = 16  # then the event loop serves other requests


class ScoreOptions(NamedTuple):
    """What a request overrides in the settings of its datasets; None: not overridden."""

    method: str | None = None
    token_score: str | None = None


class ScoringResult(NamedTuple):
    """For each sentence its assessment as JSON, or an error; with the contexts used and the time taken."""

    answers: Sequence[bytes | InvalidInput | InferenceError]
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


class Scorer:
    """Must be used in the event loop's thread only."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get_context(self, dataset: str, options: ScoreOptions) -> JudgingContext:
        """What sentences of the dataset are judged with now. Raises `InvalidInput` for unknown options."""
        context = self._backend.state_view.get_context(dataset)
        return context.with_scores(method=options.method, token_score=options.token_score)

    async def score(
        self, sentences: Sequence[LabelledSentence], options: ScoreOptions, *, request_id: str, wait: bool = False
    ) -> ScoringResult:
        """One answer per sentence. A full queue raises `OverloadedError`; with `wait` the call waits for space."""
        contexts: dict[str, JudgingContext] = {}
        answers: list[bytes | InvalidInput | InferenceError | None] = []
        class_ids: dict[int, list[int]] = {}
        for index, sentence in enumerate(sentences):
            if sentence.dataset not in contexts:
                if contexts:  # building one takes time: the event loop serves other requests in between
                    await asyncio.sleep(0)
                contexts[sentence.dataset] = self.get_context(sentence.dataset, options)
            try:
                class_ids[index] = _map_labels(sentence, contexts[sentence.dataset].judge)
            except InvalidInput as error:
                answers.append(error)
            else:
                answers.append(None)
        inferred = await self._infer([sentences[index] for index in class_ids], contexts, wait=wait)
        started = time.perf_counter()
        shared_fields = b"," + to_json({"scored_at": datetime.now(UTC), "request_id": request_id})[1:]
        for count, (index, words) in enumerate(zip(class_ids, inferred.answers, strict=True), 1):
            if isinstance(words, InferenceError):
                answers[index] = words
            else:
                sentence = sentences[index]
                context = contexts[sentence.dataset]
                answers[index] = _render_assessment(sentence, words, class_ids[index], context) + shared_fields
            if count % SENTENCES_PER_YIELD == 0:
                await asyncio.sleep(0)
        judge_seconds = time.perf_counter() - started
        timing = inferred.timing
        self._backend.telemetry.observe_stages(
            "api",
            {
                "queue": timing.queue,
                "tokenize": timing.tokenize,
                "inference": timing.inference,
                "judge": judge_seconds,
            },
        )
        return ScoringResult([answer for answer in answers if answer is not None], contexts, timing, judge_seconds)

    async def _infer(
        self, sentences: Sequence[LabelledSentence], contexts: dict[str, JudgingContext], *, wait: bool
    ) -> BatchedInference:
        """Runs together the sentences whose datasets use the same pooling of subwords."""
        by_pooling: dict[Pooling | None, list[int]] = {}
        for index, sentence in enumerate(sentences):
            by_pooling.setdefault(contexts[sentence.dataset].judge.settings.pooling, []).append(index)
        answers: dict[int, InferenceResult] = {}
        timings: list[Timing] = []
        try:
            for pooling, indexes in by_pooling.items():
                tokens = [sentences[index].tokens for index in indexes]
                inferred = await self._backend.batcher.infer(tokens, pooling=pooling, wait=wait)
                answers |= zip(indexes, inferred.answers, strict=True)
                timings.append(inferred.timing)
        except OverloadedError:
            self._backend.telemetry.count_overload()
            raise
        return BatchedInference([answers[index] for index in range(len(sentences))], Timing.sum(timings))


def _map_labels(sentence: LabelledSentence, judge: Judge) -> list[int]:
    """The classes of the given labels. Raises `InvalidInput` for what can be refused without running the model."""
    if sentence.deleted:
        raise InvalidInput("a deleted sentence has nothing to score: leave it out", field="deleted")
    return judge.to_class_ids(sentence)


def _render_assessment(
    sentence: LabelledSentence, words: WordProbs, class_ids: list[int], context: JudgingContext
) -> bytes:
    """The assessment as JSON without its closing brace."""
    observation = context.judge.observe(sentence, words, class_ids=class_ids)
    scores = context.judge.score_words(observation, context.threshold_set)
    if scores.reason == "update":  # the reason is for the review queue, and this sentence does not enter it
        scores = replace(scores, reason="scored")
    assessment = context.judge.build_assessment(observation, scores, context.threshold_set)
    return assessment.model_dump_json(exclude_none=True).encode()[:-1]
