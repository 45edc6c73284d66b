"""Scores sentences with the thresholds that the stream has learned; changes no statistics. The results are JSON."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import to_json

from service.api.batching.results import BatchedInference, Timing
from service.api.http.problems import OverloadedError
from service.errors import InferenceError, InvalidInput
from service.stream.state.snapshot import StatsKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.backend import Backend
    from service.contracts import LabelledSentence
    from service.inference.classifier import InferenceResult, WordProbs
    from service.inference.pooling import Pooling
    from service.judging.judge import Judge
    from service.judging.types import ThresholdSet
    from service.statistics.running import RunningStats

MAX_CACHED_CONTEXTS = 256
SENTENCES_PER_YIELD = 16  # then the event loop serves other requests


class ScoreOptions(NamedTuple):
    """What a request overrides in the settings of its datasets; None: not overridden."""

    method: str | None = None
    token_score: str | None = None


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """What a dataset's sentences are scored with, until its settings or statistics change."""

    judge: Judge
    threshold_set: ThresholdSet
    settings_json: bytes
    thresholds_json: bytes
    dataset_judge: Judge
    stats: RunningStats | None


class ScoringResult(NamedTuple):
    """For each sentence its assessment as JSON, or an error; with the contexts used and the time taken."""

    answers: Sequence[bytes | InvalidInput | InferenceError]
    contexts: dict[str, ScoringContext]
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
        self._contexts: OrderedDict[tuple[str, ScoreOptions], ScoringContext] = OrderedDict()

    def get_context(self, dataset: str, options: ScoreOptions) -> ScoringContext:
        view = self._backend.state_view
        key = (dataset, options)
        while True:
            dataset_judge = view.get_judge(dataset)
            stats = view.get_total(StatsKey(dataset, dataset_judge.stats_key))
            cached = self._contexts.get(key)
            if cached is not None and cached.dataset_judge is dataset_judge and cached.stats is stats:
                self._contexts.move_to_end(key)
                return cached
            threshold_set = view.get_threshold_set(dataset)
            if view.get_judge(dataset) is dataset_judge:  # else the settings changed meanwhile
                break
        judge = dataset_judge
        overrides = {name: value for name, value in options._asdict().items() if value is not None}
        if any(getattr(judge.settings, name) != value for name, value in overrides.items()):
            judge = view.build_judge(judge.settings.model_copy(update=overrides))
        settings_json = judge.settings.model_dump_json().encode()
        context = ScoringContext(
            judge, threshold_set, settings_json, to_json(threshold_set.by_class), dataset_judge, stats
        )
        self._contexts[key] = context
        if len(self._contexts) > MAX_CACHED_CONTEXTS:
            self._contexts.popitem(last=False)
        return context

    async def score(
        self, sentences: Sequence[LabelledSentence], options: ScoreOptions, *, request_id: str, wait: bool = False
    ) -> ScoringResult:
        """One answer per sentence. A full queue raises `OverloadedError`; with `wait` the call waits for space."""
        contexts: dict[str, ScoringContext] = {}
        answers: list[bytes | InvalidInput | InferenceError | None] = []
        for sentence in sentences:
            if sentence.dataset not in contexts:
                if contexts:  # building one takes time: the event loop serves other requests in between
                    await asyncio.sleep(0)
                contexts[sentence.dataset] = self.get_context(sentence.dataset, options)
            try:
                _check_scorable(sentence, contexts[sentence.dataset].judge)
            except InvalidInput as error:
                answers.append(error)
            else:
                answers.append(None)
        valid = [index for index, answer in enumerate(answers) if answer is None]
        inferred = await self._infer([sentences[index] for index in valid], contexts, wait=wait)
        started = time.perf_counter()
        shared_fields = b"," + to_json({"scored_at": datetime.now(UTC), "request_id": request_id})[1:]
        for count, (index, words) in enumerate(zip(valid, inferred.answers, strict=True), 1):
            if isinstance(words, InferenceError):
                answers[index] = words
            else:
                sentence = sentences[index]
                answers[index] = _render_assessment(sentence, words, contexts[sentence.dataset]) + shared_fields
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
        self, sentences: Sequence[LabelledSentence], contexts: dict[str, ScoringContext], *, wait: bool
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


def _check_scorable(sentence: LabelledSentence, judge: Judge) -> None:
    """Raises `InvalidInput` for what can be refused without running the model."""
    if sentence.deleted:
        raise InvalidInput("a deleted sentence has nothing to score: leave it out", field="deleted")
    judge.to_class_ids(sentence)


def _render_assessment(sentence: LabelledSentence, words: WordProbs, context: ScoringContext) -> bytes:
    """The assessment as JSON without its closing brace."""
    observation = context.judge.observe(sentence, words)
    scores = context.judge.score_words(observation, context.threshold_set)
    if scores.reason == "update":  # the reason is for the review queue, and this sentence does not enter it
        scores = replace(scores, reason="scored")
    assessment = context.judge.build_assessment(observation, scores, context.threshold_set)
    return assessment.model_dump_json(exclude_none=True).encode()[:-1]
