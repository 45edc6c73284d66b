"""The one path that every way in shares: infer (may run ahead), judge with the statistics before, then learn.

    sentence + word probabilities --observe--> observation --judge(stats)--> assessment
                                                          --learn(stats)--> new stats

Nothing here keeps or changes statistics: `judge` reads them, `learn` returns new ones. So inference may run ahead of
judging, a batch can be thrown away whole, and a replay gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.contracts import BelowPolicy, BudgetPolicy, ModelName
from service.errors import InvalidInput
from service.judging.assessments import Wording
from service.judging.types import Lesson, Observation, Verdict, Yardstick
from service.labels import UNSCORED, LabelMap, Scheme
from service.scoring.confident import NEVER, judge_sentence, weighted
from service.scoring.flat import merge_classes
from service.scoring.sentence import DEFAULT_METHOD, METHODS
from service.scoring.token import DEFAULT_TOKEN_SCORE, TOKEN_SCORES
from service.statistics.running import UNDATED, RunningStats, day_of
from service.statistics.thresholds import MIN_WORDS, PRIOR_WORDS, HeldOut, flag_thresholds, priority_weights, warming_up

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from service.contracts import Assessment, DatasetSettings, LabelledSentence, Reason
    from service.inference.classifier import WordProbs
    from service.inference.model.folder import ModelFolder

NO_CLASS = "its label has no class in the model"


class Judge:
    """Judges and learns the sentences of one dataset with one model."""

    def __init__(
        self,
        folder: ModelFolder,
        settings: DatasetSettings,
        *,
        min_words: int = MIN_WORDS,
        prior_words: int = PRIOR_WORDS,
        held_out: bool = True,
        streamed: bool = False,
    ) -> None:
        """`held_out=False` leaves the model's own statistics out: thresholds are those of the data alone.

        `streamed`: an unknown label is explained by the dataset's settings, rather than by a command's options.
        """
        if settings.method not in METHODS:
            raise InvalidInput(f"unknown method {settings.method!r}: use one of {', '.join(METHODS)}", field="method")
        if settings.token_score not in TOKEN_SCORES:
            raise InvalidInput(
                f"unknown token score {settings.token_score!r}: use one of {', '.join(TOKEN_SCORES)}",
                field="token_score",
            )
        self.settings = settings
        self._other_score = (settings.method, settings.token_score) != (DEFAULT_METHOD, DEFAULT_TOKEN_SCORE)
        self.min_words = min_words
        self.prior_words = prior_words
        self.scheme = Scheme(settings.scheme) if settings.scheme else folder.scheme
        self.labels = LabelMap.build(
            folder.labels,
            model_scheme=folder.scheme,
            dataset_labels=None,
            dataset_scheme=self.scheme,
            mapping=settings.label_map,
            unmapped=settings.unmapped,
            dataset=settings.name if streamed else None,
        )
        self.classes = self.labels.classes
        self.own = self.labels.own()
        self._held_out = self._prior(folder) if held_out else None
        model = ModelName(name=folder.name, fingerprint=folder.fingerprint)
        self._wording = Wording(settings, self.labels, self.own, model)
        self.stats_key = f"{folder.stats_key(settings.pooling or folder.pooling, self.classes)}/{settings.epoch}"

    def _prior(self, folder: ModelFolder) -> HeldOut | None:
        """The model's own sums of the classes that are judged, or of the types they are merged to."""
        held = folder.held_out if self.labels.merge is None else folder.held_out_types
        return None if held is None else HeldOut(held.sums, held.counts)

    def empty(self) -> RunningStats:
        return RunningStats.empty(len(self.classes), keep_days=self.settings.forget_after_days)

    def ids(self, sentence: LabelledSentence) -> list[int]:
        """The classes of the given labels; the error names the word whose label has none."""
        try:
            return self.labels.map(sentence.labels).ids
        except InvalidInput as error:
            error.name_word(sentence.tokens)
            raise

    def observe(self, sentence: LabelledSentence, words: WordProbs) -> Observation:
        ids = self.ids(sentence)
        given = classes = np.array(ids, np.intp)
        unscored, probs, index = {}, words.probs, np.arange(len(ids))
        if words.unscored or UNSCORED in ids:
            chosen = words.scored & (classes != UNSCORED)
            unscored = {i: words.unscored.get(i, NO_CLASS) for i in np.flatnonzero(~chosen).tolist()}
            probs, given, index = probs[chosen], given[chosen], index[chosen]
        if self.labels.merge is not None:
            probs = merge_classes(probs, self.labels.merge)
        return Observation(sentence, probs, given, index, unscored, classes)

    def yardstick(self, stats: RunningStats) -> Yardstick:
        total = stats.total(self.settings.forget_after_days)
        thresholds = flag_thresholds(total, self._held_out, prior_words=self.prior_words, min_words=self.min_words)
        warming = set(warming_up(total, self.min_words))
        return Yardstick(
            thresholds,
            priority_weights(total),
            {name: None if t >= NEVER else float(t) for name, t in zip(self.classes, thresholds, strict=True)},
            tuple(name for k, name in enumerate(self.classes) if k in warming),
            self._cut(stats),
        )

    def _cut(self, stats: RunningStats) -> float | None:
        policy = self.settings.flag_policy
        if isinstance(policy, BelowPolicy):
            return policy.cut
        return stats.histogram.cut(policy.share) if isinstance(policy, BudgetPolicy) else None

    def judge(self, seen: Observation, by: RunningStats | Yardstick, *, reason: Reason | None = None) -> Assessment:
        """The assessment by the statistics, or by a yardstick already read from them."""
        yardstick = by if isinstance(by, Yardstick) else self.yardstick(by)
        return self.assessment(seen, self.weigh(seen, yardstick, reason=reason), yardstick)

    def weigh(self, seen: Observation, by: Yardstick, *, reason: Reason | None = None) -> Verdict:
        """The numbers alone. Most sentences of a stream need nothing more, and the rest costs three times as much."""
        if not len(seen.given):
            nothing = np.zeros(0)
            found = reason or self._reason(seen.sentence, by, doubted=False, score=None, priority=None)
            return Verdict(found, np.zeros(0, np.bool_), nothing, nothing, nothing, None, None)
        flags, confidence, score = judge_sentence(seen.probs, seen.given, by.thresholds)
        qualities = confidence
        if self._other_score:
            qualities = TOKEN_SCORES[self.settings.token_score](seen.probs, seen.given)
            score = float(METHODS[self.settings.method].function(seen.flat, qualities, flags)[0])
        scores = weighted(confidence, by.weights[seen.given])
        priority = float(scores.min())
        found = reason or self._reason(seen.sentence, by, doubted=bool(flags.any()), score=score, priority=priority)
        return Verdict(found, flags, confidence, qualities, scores, score, priority)

    def assessment(self, seen: Observation, verdict: Verdict, by: Yardstick) -> Assessment:
        return self._wording.assessment(seen, verdict, by)

    def deleted(self, sentence: LabelledSentence) -> Assessment:
        """A sentence that is gone: nothing to judge or to learn, but its item must be closed."""
        return self._wording.deleted(sentence)

    def _reason(
        self, sentence: LabelledSentence, by: Yardstick, *, doubted: bool, score: float | None, priority: float | None
    ) -> Reason:
        """Whether the dataset's policy sends the sentence to review, and as what."""
        kind = self.settings.flag_policy.kind
        number = priority if kind == "budget" else score
        wanted = doubted if by.cut is None else number is not None and number < by.cut
        return "flagged" if wanted else "update" if sentence.update else "scored"

    def learn(
        self,
        seen: Observation,
        stats: RunningStats,
        *,
        priority: float | None = None,
        arrived_at: datetime | None = None,
    ) -> RunningStats:
        """New statistics that know this sentence; the ones given stay as they are.

        `arrived_at` (of the record, not of a clock) dates a sentence that does not say when it was annotated.
        """
        if not len(seen.given):
            return stats
        return stats.update(seen.probs, seen.given, day=self._day(seen, arrived_at), priority=priority)

    def learn_all(self, lessons: Iterable[Lesson], stats: RunningStats) -> RunningStats:
        """`learn` of one after the other, to the bit, in one go: sums of integers do not care."""
        by_day: dict[str, list[Lesson]] = {}
        for lesson in lessons:
            if len(lesson.seen.given):
                by_day.setdefault(self._day(lesson.seen, lesson.arrived_at), []).append(lesson)
        for day, taught in by_day.items():
            stats = stats.update(
                np.concatenate([lesson.seen.probs for lesson in taught]),
                np.concatenate([lesson.seen.given for lesson in taught]),
                day=day,
                priority=np.array([lesson.priority for lesson in taught if lesson.priority is not None]),
            )
        return stats

    def _day(self, seen: Observation, arrived_at: datetime | None) -> str:
        if self.settings.forget_after_days and arrived_at:
            return day_of(seen.sentence.annotated_at, arrived_at)
        return UNDATED
