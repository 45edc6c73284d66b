"""The one path that every way in shares: infer (may run ahead), judge with the statistics before, then learn.

    sentence + word probabilities --observe--> observation --judge(stats)--> assessment
                                                          --learn(stats)--> new stats

Nothing here keeps or changes statistics: `judge` reads them, `learn` returns new ones. So inference may run ahead of
judging, a batch can be thrown away whole, and a replay gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.contracts import ModelName, ScoredSentence
from service.contracts.defaults import MIN_WORDS, PRIOR_WORDS
from service.errors import InvalidInput
from service.judging.assessments import AssessmentBuilder
from service.judging.types import Observation, SentenceScores, StatsUpdate, ThresholdSet
from service.labels import UNSCORED, LabelMap, Scheme
from service.scoring.confident import UNREACHABLE_THRESHOLD, apply_weights, flag_sentence
from service.scoring.flat import merge_classes
from service.scoring.sentence import DEFAULT_METHOD, METHODS
from service.scoring.token import DEFAULT_TOKEN_SCORE, TOKEN_SCORES
from service.statistics.running import UNDATED, RunningStats, to_bucket_day
from service.statistics.thresholds import (
    HeldOutStats,
    compute_flag_thresholds,
    compute_priority_weights,
    find_warming_up,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from service.contracts import Assessment, DatasetSettings, LabelledSentence, Reason
    from service.inference.classifier import WordProbs
    from service.inference.model.folder import ModelFolder

NO_CLASS_REASON = "its label has no class in the model"


class Judge:
    """Judges and learns the sentences of one dataset with one model."""

    def __init__(
        self,
        folder: ModelFolder,
        settings: DatasetSettings,
        *,
        min_words: int = MIN_WORDS,
        prior_words: int = PRIOR_WORDS,
        use_held_out: bool = True,
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
        self._has_custom_score = (settings.method, settings.token_score) != (DEFAULT_METHOD, DEFAULT_TOKEN_SCORE)
        self.min_words = min_words
        self.prior_words = prior_words
        self.scheme = Scheme(settings.scheme) if settings.scheme else folder.scheme
        self.label_map = LabelMap.build(
            folder.labels,
            model_scheme=folder.scheme,
            dataset_labels=None,
            dataset_scheme=self.scheme,
            mapping=settings.label_map,
            unmapped=settings.unmapped,
            dataset=settings.name if streamed else None,
        )
        self.classes = self.label_map.classes
        self.label_writer = self.label_map.build_writer()
        self._held_out = self._select_prior(folder) if use_held_out else None
        model = ModelName(name=folder.name, fingerprint=folder.fingerprint)
        self._assessment_builder = AssessmentBuilder(settings, self.label_map, self.label_writer, model)
        self.stats_key = (
            f"{folder.compute_stats_key(settings.pooling or folder.pooling, self.classes)}/{settings.epoch}"
        )

    def _select_prior(self, folder: ModelFolder) -> HeldOutStats | None:
        """The model's own sums of the classes that are judged, or of the types they are merged to."""
        held = folder.held_out if self.label_map.merge is None else folder.held_out_types
        return None if held is None else HeldOutStats(held.sums, held.counts)

    def create_empty_stats(self) -> RunningStats:
        return RunningStats.empty(len(self.classes), keep_days=self.settings.forget_after_days)

    def to_class_ids(self, sentence: LabelledSentence) -> list[int]:
        """The classes of the given labels; the error names the word whose label has none."""
        try:
            return self.label_map.map(sentence.labels).ids
        except InvalidInput as error:
            error.attach_token(sentence.tokens)
            raise

    def observe(
        self, sentence: LabelledSentence, words: WordProbs, *, class_ids: Sequence[int] | None = None
    ) -> Observation:
        """The scored words of a sentence. `class_ids`: what `to_class_ids` returned, if it was called before."""
        ids = self.to_class_ids(sentence) if class_ids is None else class_ids
        given = all_given = np.array(ids, np.intp)
        unscored, probs, word_index = {}, words.probs, np.arange(len(ids))
        if words.unscored or UNSCORED in ids:
            is_scored = words.scored & (all_given != UNSCORED)
            unscored = {i: words.unscored.get(i, NO_CLASS_REASON) for i in np.flatnonzero(~is_scored).tolist()}
            probs, given, word_index = probs[is_scored], given[is_scored], word_index[is_scored]
        if self.label_map.merge is not None:
            probs = merge_classes(probs, self.label_map.merge)
        return Observation(sentence, probs, given, word_index, unscored, all_given)

    def build_threshold_set(self, stats: RunningStats) -> ThresholdSet:
        total = stats.get_total(self.settings.forget_after_days)
        thresholds = compute_flag_thresholds(
            total, self._held_out, prior_words=self.prior_words, min_words=self.min_words
        )
        warming = set(find_warming_up(total, self.min_words))
        return ThresholdSet(
            thresholds,
            compute_priority_weights(total),
            {
                name: None if t >= UNREACHABLE_THRESHOLD else float(t)
                for name, t in zip(self.classes, thresholds, strict=True)
            },
            tuple(name for k, name in enumerate(self.classes) if k in warming),
            self.settings.flag_policy.compute_cutoff(stats.histogram),
        )

    def assess(self, observation: Observation, thresholds: ThresholdSet, *, reason: Reason | None = None) -> Assessment:
        """Scores and assessment in one call."""
        return self.build_assessment(observation, self.score_words(observation, thresholds, reason=reason), thresholds)

    def score_words(
        self, observation: Observation, thresholds: ThresholdSet, *, reason: Reason | None = None
    ) -> SentenceScores:
        """The numbers alone. Most sentences of a stream need nothing more, and the rest costs three times as much."""
        if not len(observation.given):
            nothing = np.zeros(0)
            unscored = ScoredSentence(has_flags=False, score=None, priority=None)
            found = reason or self._decide_reason(observation.sentence, unscored, thresholds)
            return SentenceScores(found, np.zeros(0, np.bool_), nothing, nothing, nothing, None, None)
        flags, confidence, score = flag_sentence(observation.probs, observation.given, thresholds.by_index)
        qualities = confidence
        if self._has_custom_score:
            qualities = TOKEN_SCORES[self.settings.token_score](observation.probs, observation.given)
            score = float(METHODS[self.settings.method].function(observation.flat, qualities, flags)[0])
        scores = apply_weights(confidence, thresholds.weights[observation.given])
        priority = float(scores.min())
        scored = ScoredSentence(bool(flags.any()), score, priority)
        found = reason or self._decide_reason(observation.sentence, scored, thresholds)
        return SentenceScores(found, flags, confidence, qualities, scores, score, priority)

    def build_assessment(
        self, observation: Observation, scores: SentenceScores, thresholds: ThresholdSet
    ) -> Assessment:
        return self._assessment_builder.build(observation, scores, thresholds)

    def build_deleted_assessment(self, sentence: LabelledSentence) -> Assessment:
        """A sentence that is gone: nothing to judge or to learn, but its item must be closed."""
        return self._assessment_builder.build_deleted(sentence)

    def _decide_reason(self, sentence: LabelledSentence, scored: ScoredSentence, thresholds: ThresholdSet) -> Reason:
        """Whether the sentence goes to review by the dataset's flag policy, and the reason to record."""
        if self.settings.flag_policy.selects(scored, thresholds.flag_cutoff):
            return "flagged"
        return "update" if sentence.update else "scored"

    def learn(
        self,
        observation: Observation,
        stats: RunningStats,
        *,
        priority: float | None = None,
        arrived_at: datetime | None = None,
    ) -> RunningStats:
        """New statistics that know this sentence; the ones given stay as they are.

        `arrived_at` (of the record, not of a clock) dates a sentence that does not say when it was annotated.
        """
        if not len(observation.given):
            return stats
        return stats.update(
            observation.probs, observation.given, day=self._get_bucket_day(observation, arrived_at), priority=priority
        )

    def learn_all(self, updates: Iterable[StatsUpdate], stats: RunningStats) -> RunningStats:
        """`learn` of one after the other, to the bit, in one go: sums of integers do not care."""
        by_day: dict[str, list[StatsUpdate]] = {}
        for lesson in updates:
            if len(lesson.observation.given):
                by_day.setdefault(self._get_bucket_day(lesson.observation, lesson.arrived_at), []).append(lesson)
        for day, taught in by_day.items():
            stats = stats.update(
                np.concatenate([lesson.observation.probs for lesson in taught]),
                np.concatenate([lesson.observation.given for lesson in taught]),
                day=day,
                priority=np.array([lesson.priority for lesson in taught if lesson.priority is not None]),
            )
        return stats

    def _get_bucket_day(self, observation: Observation, arrived_at: datetime | None) -> str:
        if self.settings.forget_after_days and arrived_at:
            return to_bucket_day(observation.sentence.annotated_at, arrived_at)
        return UNDATED
