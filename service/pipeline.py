"""The one path that every way in shares: infer (may run ahead), judge with the statistics before, then learn.

    sentence + word probabilities --observe--> observation --judge(stats)--> assessment
                                                          --learn(stats)--> new stats

Nothing here keeps or changes statistics: `judge` reads them, `learn` returns new ones. So inference may run ahead of
judging, a batch can be thrown away whole, and a replay gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
from service.labels import OUTSIDE, UNSCORED, LabelMap, Scheme, Span, entity_type
from service.scoring.confident import NEVER, judge_sentence, weighted_word_scores
from service.scoring.flat import Flat, merge_classes
from service.scoring.sentence import DEFAULT_METHOD, METHODS
from service.scoring.token import DEFAULT_TOKEN_SCORE, TOKEN_SCORES
from service.state.priors import MIN_WORDS, PRIOR_WORDS, HeldOut, flag_thresholds, priority_weights, warming_up
from service.state.running import UNDATED, RunningStats, day_of
from service.suspects import decode_valid, find_suspects

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is found of a sentence, in numbers: enough to know whether anybody has to be told."""

    reason: Reason
    flags: npt.NDArray[np.bool_]
    qualities: npt.NDArray[np.float64]
    weighted: npt.NDArray[np.float64]  # the word scores behind `priority`
    score: float | None
    priority: float | None


class Lesson(NamedTuple):
    """A judged sentence that is still to be learned."""

    seen: Observation
    priority: float | None
    arrived_at: datetime | None


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
        self.own = self.labels.own()
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
        return self.assessment(seen, self.weigh(seen, yardstick, reason=reason), yardstick)

    def weigh(self, seen: Observation, by: Yardstick, *, reason: Reason | None = None) -> Verdict:
        """The numbers alone. Most sentences of a stream need nothing more, and the rest costs three times as much."""
        if not len(seen.given):
            nothing = np.zeros(0)
            found = reason or self._reason(seen.sentence, by, doubted=False, score=None, priority=None)
            return Verdict(found, np.zeros(0, np.bool_), nothing, nothing, None, None)
        flags, qualities, score = judge_sentence(seen.probs, seen.given, by.thresholds)
        if self._other_score:
            qualities = TOKEN_SCORES[self.settings.token_score](seen.probs, seen.given)
            score = float(METHODS[self.settings.method].function(seen.flat, qualities, flags)[0])
        weighted = weighted_word_scores(seen.probs, seen.given, by.weights)
        priority = float(weighted.min())
        found = reason or self._reason(seen.sentence, by, doubted=bool(flags.any()), score=score, priority=priority)
        return Verdict(found, flags, qualities, weighted, score, priority)

    def assessment(self, seen: Observation, verdict: Verdict, by: Yardstick) -> Assessment:
        """The verdict in words. What goes in was validated on its way here, so it is not validated again."""
        doubted = bool(verdict.flags.any())
        path = None if self.own.simple(seen.sentence.labels) else self._path(seen)
        rows = np.flatnonzero(verdict.flags).tolist() if doubted else ()
        return Assessment.model_construct(
            **seen.sentence.__dict__,
            reason=verdict.reason,
            score=verdict.score,
            method=self.settings.method,
            token_score=self.settings.token_score,
            priority=verdict.priority,
            words=self._words(seen, verdict.qualities),
            flags=tuple(self._flag(seen, row, by, path) for row in rows),
            worst=self._flag(seen, int(verdict.weighted.argmin()), by, path) if len(seen.given) else None,
            suspects=self._suspects(seen, verdict.flags, path) if doubted else (),
            weights=self._weights(seen, by),
            inclusion_probability=None,
            thresholds=by.named,
            warming_up=by.warming_up,
            model=self._model,
            settings_version=self.settings.version,
            position=None,
            scored_at=None,
            request_id=None,
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

    def _words(self, seen: Observation, qualities: npt.NDArray[np.float64]) -> tuple[WordScore, ...]:
        p_given = seen.probs[np.arange(len(seen.given)), seen.given].tolist()
        numbers = [{"p_given": p, "score": q} for p, q in zip(p_given, qualities.tolist(), strict=True)]
        scored = WORD_SCORES.validate_python(numbers)  # all at once: a sentence has many words
        if not seen.unscored:
            return scored
        words = {int(place): word for place, word in zip(seen.index, scored, strict=True)}
        words |= {place: WordScore(unscored=why) for place, why in seen.unscored.items()}
        return tuple(words[place] for place in range(len(words)))

    def _flag(self, seen: Observation, row: int, by: Yardstick, path: list[int] | None) -> Flag:
        """The doubt about one word, in the dataset's own labels; the threshold is that of the model's class."""
        probs, given, place = seen.probs[row], int(seen.given[row]), int(seen.index[row])
        best = likeliest_other(probs, given)
        return Flag(
            index=place,
            token=seen.sentence.tokens[place],
            given=seen.sentence.labels[place],
            suggested=self._suggested(seen, place, best, path),
            p_given=float(probs[given]),
            p_suggested=float(probs[best]),
            threshold=by.named[self.classes[best]],
        )

    def _suggested(self, seen: Observation, place: int, best: int, path: list[int] | None) -> str:
        """How the dataset writes a class in this place; `path` is the valid reading of the sentence around it."""
        labels = seen.sentence.labels
        if path is None:
            return self.own.label(best, labels)
        names = [self.classes[k] for k in path]
        if entity_type(names[place], self.labels.scheme) != entity_type(self.classes[best], self.labels.scheme):
            names[place] = self.classes[best]  # the path reads another type here, but this one is the likeliest
        return self.own.rewritten(names, labels)[place]

    def _weights(self, seen: Observation, by: Yardstick) -> dict[str, float]:
        """By given label, so that the word scores behind `priority` can be had again from those in `words`."""
        classes = dict(zip(seen.sentence.labels, seen.classes.tolist(), strict=True))
        return {label: float(by.weights[k]) for label, k in classes.items() if k != UNSCORED}

    def _whole(self, seen: Observation) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Classes and probabilities of every word: one without counts as what it was given, and parts nothing."""
        outside = self.classes.index(OUTSIDE) if OUTSIDE in self.classes else 0
        given = np.where(seen.classes == UNSCORED, outside, seen.classes)
        probs = np.eye(len(self.classes))[given]
        probs[seen.index] = seen.probs
        return given, probs

    def _path(self, seen: Observation) -> list[int]:
        return decode_valid(self._whole(seen)[1], self.classes, self.labels.scheme)

    def _suspects(
        self, seen: Observation, flags: npt.NDArray[np.bool_], path: list[int] | None = None
    ) -> tuple[SuspectSpan, ...]:
        """Spans of the whole sentence, their types in the dataset's own names."""
        given, probs = self._whole(seen)
        flagged = np.zeros(len(given), np.bool_)
        flagged[seen.index] = flags
        names = [self.classes[k] for k in given]
        labels = seen.sentence.labels
        return tuple(
            SuspectSpan(
                kind=suspect.kind,
                given_span=self._entity(suspect.given_span, labels, given=True),
                suggested_span=self._entity(suspect.suggested_span, labels, given=False),
                confidence=suspect.confidence,
            )
            for suspect in find_suspects(names, probs, self.classes, self.labels.scheme, flagged.tolist(), path=path)
        )

    def _entity(self, span: Span | None, labels: Sequence[str], *, given: bool) -> EntitySpan | None:
        if span is None:
            return None
        name = span.type
        if not self.own.same:
            name = self.own.source(labels[span.start]) if given else self.own.type_at(span, labels)
        return EntitySpan(start=span.start, end=span.end, type=name)


def likeliest_other(probs: npt.NDArray[np.float64], given: int) -> int:
    """The class that is suggested for a word: the likeliest, or the likeliest other one where that is the given."""
    best = int(probs.argmax())
    if best == given:
        others = probs.copy()
        others[given] = -1.0
        best = int(others.argmax())
    return best
