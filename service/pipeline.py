"""The one path that every way in shares: infer (may run ahead), judge with the statistics before, then learn.

    sentence + word probabilities --observe--> observation --judge(stats)--> assessment
                                                          --learn(stats)--> new stats

Nothing here keeps or changes statistics: `judge` reads them, `learn` returns new ones. So inference may run ahead of
judging, a batch can be thrown away whole, and a replay gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter

from service.contracts import (
    Assessment,
    BelowPolicy,
    BudgetPolicy,
    DatasetSettings,
    EntitySpan,
    Flag,
    LabelledSentence,
    ModelName,
    SuspectSpan,
    WordScore,
)
from service.errors import InvalidInput
from service.labels import OUTSIDE, UNSCORED, LabelMap, Scheme, Span
from service.scoring.confident import NEVER, judge_sentence, weighted_word_scores
from service.scoring.flat import Flat, merge_classes
from service.scoring.sentence import DEFAULT_METHOD, METHODS
from service.scoring.token import DEFAULT_TOKEN_SCORE, TOKEN_SCORES
from service.state.priors import MIN_WORDS, PRIOR_WORDS, HeldOut, flag_thresholds, priority_weights, warming_up
from service.state.running import UNDATED, RunningStats, day_of
from service.suspects import find_suspects

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import numpy.typing as npt

    from service.contracts import Reason
    from service.inference.classifier import WordProbs
    from service.inference.folder import ModelFolder

WORD_SCORES = TypeAdapter(tuple[WordScore, ...])
NO_CLASS = "its label has no class in the model"


@dataclass(frozen=True, slots=True)
class Observation:
    """A sentence's scored words: probabilities and given classes, with the place of each in the sentence."""

    sentence: LabelledSentence
    probs: npt.NDArray[np.float64]
    given: npt.NDArray[np.intp]
    index: npt.NDArray[np.intp]
    unscored: Mapping[int, str]
    classes: npt.NDArray[np.intp]  # of every word of the sentence; UNSCORED where the model has none for its label

    @property
    def flat(self) -> Flat:
        return Flat(self.probs, self.given, np.zeros(1, np.intp))


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What sentences are held against: read from the statistics once, used until they change."""

    thresholds: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    named: dict[str, float | None]
    warming_up: tuple[str, ...]
    cut: float | None  # of a policy that sends sentences to review by a number


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
    ) -> None:
        """`held_out=False` leaves the model's own statistics out: thresholds are those of the data alone."""
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
        )
        self.classes = self.labels.classes
        self._held_out = self._prior(folder) if held_out else None
        self._model = ModelName(name=folder.name, fingerprint=folder.fingerprint)
        self.stats_key = f"{folder.stats_key(settings.pooling or folder.pooling, self.classes)}/{settings.epoch}"

    def _prior(self, folder: ModelFolder) -> HeldOut | None:
        """The model's own sums of the classes that are judged, or of the types they are merged to."""
        held = folder.held_out if self.labels.merge is None else folder.held_out_types
        return None if held is None else HeldOut(held.sums, held.counts)

    def empty(self) -> RunningStats:
        return RunningStats.empty(len(self.classes), keep_days=self.settings.forget_after_days)

    def observe(self, sentence: LabelledSentence, words: WordProbs) -> Observation:
        given = classes = np.asarray(self.labels.map(sentence.labels).ids, np.intp)
        chosen = words.scored & (classes != UNSCORED)
        unscored = {}
        probs = words.probs
        if not chosen.all():
            unscored = {i: words.unscored.get(i, NO_CLASS) for i in np.flatnonzero(~chosen).tolist()}
            probs, given = probs[chosen], given[chosen]
        if self.labels.merge is not None:
            probs = merge_classes(probs, self.labels.merge)
        return Observation(sentence, probs, given, np.flatnonzero(chosen), unscored, classes)

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
        if len(seen.given):
            flags, qualities, score = judge_sentence(seen.probs, seen.given, yardstick.thresholds)
            if self._other_score:
                qualities = TOKEN_SCORES[self.settings.token_score](seen.probs, seen.given)
                score = float(METHODS[self.settings.method].function(seen.flat, qualities, flags)[0])
            priority = float(weighted_word_scores(seen.probs, seen.given, yardstick.weights).min())
        else:
            flags, qualities, score, priority = np.zeros(0, np.bool_), np.zeros(0), None, None
        doubted = bool(flags.any())
        sentence = seen.sentence
        return Assessment(
            **dict(sentence),
            reason=reason or self._reason(sentence, yardstick, doubted, score, priority),
            score=score,
            method=self.settings.method,
            token_score=self.settings.token_score,
            priority=priority,
            words=self._words(seen, qualities),
            flags=self._flags(seen, flags, yardstick) if doubted else (),
            suspects=self._suspects(seen, flags) if doubted else (),
            thresholds=yardstick.named,
            warming_up=yardstick.warming_up,
            model=self._model,
            settings_version=self.settings.version,
        )

    def deleted(self, sentence: LabelledSentence) -> Assessment:
        """A sentence that is gone: nothing to judge or to learn, but its item must be closed."""
        return Assessment(
            **dict(sentence),
            reason="deleted",
            method=self.settings.method,
            token_score=self.settings.token_score,
            model=self._model,
            settings_version=self.settings.version,
        )

    def _reason(
        self, sentence: LabelledSentence, by: Yardstick, doubted: bool, score: float | None, priority: float | None
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
        day = UNDATED
        if self.settings.forget_after_days and arrived_at:
            day = day_of(seen.sentence.annotated_at, arrived_at)
        return stats.update(seen.probs, seen.given, day=day, priority=priority)

    def _words(self, seen: Observation, qualities: npt.NDArray[np.float64]) -> tuple[WordScore, ...]:
        p_given = seen.probs[np.arange(len(seen.given)), seen.given].tolist()
        numbers = [{"p_given": p, "score": q} for p, q in zip(p_given, qualities.tolist(), strict=True)]
        scored = WORD_SCORES.validate_python(numbers)  # all at once: a sentence has many words
        if not seen.unscored:
            return scored
        words = {int(place): word for place, word in zip(seen.index, scored, strict=True)}
        words |= {place: WordScore(unscored=why) for place, why in seen.unscored.items()}
        return tuple(words[place] for place in range(len(words)))

    def _flags(self, seen: Observation, flags: npt.NDArray[np.bool_], yardstick: Yardstick) -> tuple[Flag, ...]:
        found = []
        for row in np.flatnonzero(flags):
            place, best = int(seen.index[row]), int(seen.probs[row].argmax())
            found.append(
                Flag(
                    index=place,
                    token=seen.sentence.tokens[place],
                    given=seen.sentence.labels[place],
                    suggested=self.classes[best],
                    p_given=float(seen.probs[row, seen.given[row]]),
                    p_suggested=float(seen.probs[row, best]),
                    threshold=yardstick.named[self.classes[best]],
                )
            )
        return tuple(found)

    def _suspects(self, seen: Observation, flags: npt.NDArray[np.bool_]) -> tuple[SuspectSpan, ...]:
        """Spans of the whole sentence: a word without probabilities counts as what it was given, and parts nothing."""
        outside = self.classes.index(OUTSIDE) if OUTSIDE in self.classes else 0
        given = np.where(seen.classes == UNSCORED, outside, seen.classes)
        probs = np.eye(len(self.classes))[given]
        probs[seen.index] = seen.probs
        flagged = np.zeros(len(given), np.bool_)
        flagged[seen.index] = flags
        names = [self.classes[k] for k in given]
        return tuple(
            SuspectSpan(
                kind=suspect.kind,
                given_span=_entity(suspect.given_span),
                suggested_span=_entity(suspect.suggested_span),
                confidence=suspect.confidence,
            )
            for suspect in find_suspects(names, probs, self.classes, self.labels.scheme, flagged.tolist())
        )


def _entity(span: Span | None) -> EntitySpan | None:
    return None if span is None else EntitySpan(start=span.start, end=span.end, type=span.type)
