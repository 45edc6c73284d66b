"""Sentences to assessments as JSON, judged by what the stream has learned. Nothing is learned here."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import to_json

from service.api.backend import BatchedInference, Timing
from service.errors import InferenceError, InvalidInput
from service.stream.state.snapshot import StatsKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.api.backend import Backend
    from service.contracts import LabelledSentence
    from service.inference.classifier import WordProbs
    from service.judging.judge import Judge
    from service.judging.types import ThresholdSet
    from service.statistics.running import RunningStats

MAX_CACHED_CONTEXTS = 256
SENTENCES_PER_YIELD = 16  # then others have their turn in the event loop


class ScoreOptions(NamedTuple):
    """How a request wants its sentences scored; none: as their dataset says."""

    method: str | None = None
    token_score: str | None = None


@dataclass(frozen=True, slots=True)
class ScoringContext:
    """What a dataset's sentences are held against, as long as neither its settings nor its statistics change."""

    judge: Judge
    threshold_set: ThresholdSet
    settings_json: bytes  # as JSON, both
    thresholds_json: bytes
    dataset_judge: Judge
    stats: RunningStats | None


class ScoringResult(NamedTuple):
    """An assessment as JSON or the error in its place, for each sentence; and by what, and how long it took."""

    answers: Sequence[bytes | InvalidInput | InferenceError]
    contexts: dict[str, ScoringContext]
    timing: Timing
    judge_seconds: float

    @property
    def server_timing(self) -> str:
        """The header's value, in milliseconds."""
        queue, tokenize, inference = self.timing.queue, self.timing.tokenize, self.timing.inference
        return (
            f"queue;dur={1e3 * queue:.3f}, tokenize;dur={1e3 * tokenize:.3f}, "
            f"inference;dur={1e3 * inference:.3f}, judge;dur={1e3 * self.judge_seconds:.3f}"
        )


class Scorer:
    """Lives in the event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._contexts: OrderedDict[tuple[str, ScoreOptions], ScoringContext] = OrderedDict()

    def get_context(self, dataset: str, options: ScoreOptions) -> ScoringContext:
        mirror = self._backend.state_view
        key = (dataset, options)
        while True:
            base = mirror.get_judge(dataset)
            total = mirror.get_total(StatsKey(dataset, base.stats_key))
            kept = self._contexts.get(key)
            if kept is not None and kept.dataset_judge is base and kept.stats is total:
                self._contexts.move_to_end(key)
                return kept
            yardstick = mirror.get_threshold_set(dataset)
            if mirror.get_judge(dataset) is base:  # else the settings changed meanwhile
                break
        judge = base
        wanted = {name: value for name, value in options._asdict().items() if value is not None}
        if any(getattr(base.settings, name) != value for name, value in wanted.items()):
            judge = mirror.build_judge(base.settings.model_copy(update=wanted))
        settings = judge.settings.model_dump_json().encode()
        made = ScoringContext(judge, yardstick, settings, to_json(yardstick.by_class), base, total)
        self._contexts[key] = made
        if len(self._contexts) > MAX_CACHED_CONTEXTS:
            self._contexts.popitem(last=False)
        return made

    async def score(
        self, sentences: Sequence[LabelledSentence], options: ScoreOptions, *, request_id: str, wait: bool = False
    ) -> ScoringResult:
        """One answer a sentence. With `wait` a full queue is waited for, else it raises `OverloadedError`."""
        standards: dict[str, ScoringContext] = {}
        answers: list[bytes | InvalidInput | InferenceError | None] = []
        for sentence in sentences:
            if sentence.dataset not in standards:
                if standards:  # each may have to be made, and others must have their turn
                    await asyncio.sleep(0)
                standards[sentence.dataset] = self.get_context(sentence.dataset, options)
            try:
                _check_scorable(sentence, standards[sentence.dataset].judge)
            except InvalidInput as error:
                answers.append(error)
            else:
                answers.append(None)
        good = [place for place, answer in enumerate(answers) if answer is None]
        inferred = await self._infer([sentences[place] for place in good], standards, wait=wait)
        begun = time.perf_counter()
        # What all of them say at their end is written once.
        end = b"," + to_json({"scored_at": datetime.now(UTC), "request_id": request_id})[1:]
        for count, (place, words) in enumerate(zip(good, inferred.answers, strict=True), 1):
            sentence = sentences[place]
            if isinstance(words, InferenceError):
                answers[place] = words
            else:
                answers[place] = _assess_to_json(sentence, words, standards[sentence.dataset]) + end
            if count % SENTENCES_PER_YIELD == 0:
                await asyncio.sleep(0)
        judging = time.perf_counter() - begun
        timing = inferred.timing
        self._backend.telemetry.observe_stages(
            "api",
            {"queue": timing.queue, "tokenize": timing.tokenize, "inference": timing.inference, "judge": judging},
        )
        return ScoringResult([answer for answer in answers if answer is not None], standards, timing, judging)

    async def _infer(
        self, sentences: Sequence[LabelledSentence], contexts: dict[str, ScoringContext], *, wait: bool
    ) -> BatchedInference:
        """Sentences whose datasets pool subwords in the same way go together."""
        infer = self._backend.batcher.infer
        ways = [contexts[sentence.dataset].judge.settings.pooling for sentence in sentences]
        if len(set(ways)) <= 1:
            return await infer([each.tokens for each in sentences], pooling=ways[0] if ways else None, wait=wait)
        parts = {way: [place for place, mine in enumerate(ways) if mine == way] for way in set(ways)}
        words: dict[int, WordProbs | InferenceError] = {}
        timings = []
        for way, places in parts.items():
            part = await infer([sentences[place].tokens for place in places], pooling=way, wait=wait)
            words |= zip(places, part.answers, strict=True)
            timings.append(part.timing)
        return BatchedInference([words[place] for place in range(len(sentences))], _sum_timings(timings))


def _check_scorable(sentence: LabelledSentence, judge: Judge) -> None:
    """What can be seen without the model: it is not asked in vain."""
    if sentence.deleted:
        raise InvalidInput("a deleted sentence has nothing to score: leave it out", field="deleted")
    judge.to_class_ids(sentence)


def _assess_to_json(sentence: LabelledSentence, words: WordProbs, context: ScoringContext) -> bytes:
    """The assessment as JSON, open at its end."""
    seen = context.judge.observe(sentence, words)
    verdict = context.judge.score_words(seen, context.threshold_set)
    if verdict.reason == "update":  # which is for a queue; here nobody waits for it
        verdict = replace(verdict, reason="scored")
    assessment = context.judge.build_assessment(seen, verdict, context.threshold_set)
    return assessment.model_dump_json(exclude_none=True).encode()[:-1]


def _sum_timings(timings: Iterable[Timing]) -> Timing:
    found = list(timings)
    return Timing(*(sum(getattr(each, name) for each in found) for name in ("queue", "tokenize", "inference")))
