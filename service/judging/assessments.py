"""The verdict in words: what is found of a sentence, as the message that goes out, in the dataset's own labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import TypeAdapter

from service.contracts import Assessment, EntitySpan, Flag, SuspectSpan, WordScore
from service.judging.suspects import decode_valid, find_suspects
from service.labels import OUTSIDE, UNSCORED, entity_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from service.contracts import DatasetSettings, LabelledSentence, ModelName
    from service.judging.types import Observation, Verdict, Yardstick
    from service.labels import LabelMap, OwnLabels, Span

WORD_SCORES = TypeAdapter(tuple[WordScore, ...])


class Wording:
    """Writes up the sentences of one dataset."""

    def __init__(self, settings: DatasetSettings, labels: LabelMap, own: OwnLabels, model: ModelName) -> None:
        self._settings = settings
        self._labels = labels
        self._model = model
        self._classes = labels.classes
        self._own = own

    def assessment(self, seen: Observation, verdict: Verdict, by: Yardstick) -> Assessment:
        """The verdict in words. What goes in was validated on its way here, so it is not validated again."""
        doubted = bool(verdict.flags.any())
        path = None if self._own.simple(seen.sentence.labels) else self._path(seen)
        rows = np.flatnonzero(verdict.flags).tolist() if doubted else ()
        return Assessment.model_construct(
            **seen.sentence.__dict__,
            reason=verdict.reason,
            score=verdict.score,
            method=self._settings.method,
            token_score=self._settings.token_score,
            priority=verdict.priority,
            words=self._words(seen, verdict),
            flags=tuple(self._flag(seen, row, by, path) for row in rows),
            worst=self._flag(seen, int(verdict.weighted.argmin()), by, path) if len(seen.given) else None,
            suspects=self._suspects(seen, verdict.flags, path) if doubted else (),
            weights=self._weights(seen, by),
            inclusion_probability=None,
            thresholds=by.named,
            warming_up=by.warming_up,
            model=self._model,
            settings_version=self._settings.version,
            position=None,
            scored_at=None,
            request_id=None,
        )

    def deleted(self, sentence: LabelledSentence) -> Assessment:
        """A sentence that is gone: nothing to judge or to learn, but its item must be closed."""
        return Assessment(
            **dict(sentence),
            reason="deleted",
            method=self._settings.method,
            token_score=self._settings.token_score,
            model=self._model,
            settings_version=self._settings.version,
        )

    def _words(self, seen: Observation, verdict: Verdict) -> tuple[WordScore, ...]:
        pairs = zip(verdict.confidence.tolist(), verdict.qualities.tolist(), strict=True)
        numbers = [{"p_given": p, "score": q} for p, q in pairs]
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
            threshold=by.named[self._classes[best]],
        )

    def _suggested(self, seen: Observation, place: int, best: int, path: list[int] | None) -> str:
        """How the dataset writes a class in this place; `path` is the valid reading of the sentence around it."""
        labels = seen.sentence.labels
        if path is None:
            return self._own.label(best, labels)
        names = [self._classes[k] for k in path]
        if entity_type(names[place], self._labels.scheme) != entity_type(self._classes[best], self._labels.scheme):
            names[place] = self._classes[best]  # the path reads another type here, but this one is the likeliest
        return self._own.rewritten(names, labels)[place]

    def _weights(self, seen: Observation, by: Yardstick) -> dict[str, float]:
        """By given label, so that the word scores behind `priority` can be had again from those in `words`."""
        classes = dict(zip(seen.sentence.labels, seen.classes.tolist(), strict=True))
        return {label: float(by.weights[k]) for label, k in classes.items() if k != UNSCORED}

    def _whole(self, seen: Observation) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Classes and probabilities of every word: one without counts as what it was given, and parts nothing."""
        outside = self._classes.index(OUTSIDE) if OUTSIDE in self._classes else 0
        given = np.where(seen.classes == UNSCORED, outside, seen.classes)
        probs = np.eye(len(self._classes))[given]
        probs[seen.index] = seen.probs
        return given, probs

    def _path(self, seen: Observation) -> list[int]:
        return decode_valid(self._whole(seen)[1], self._classes, self._labels.scheme)

    def _suspects(
        self, seen: Observation, flags: npt.NDArray[np.bool_], path: list[int] | None = None
    ) -> tuple[SuspectSpan, ...]:
        """Spans of the whole sentence, their types in the dataset's own names."""
        given, probs = self._whole(seen)
        flagged = np.zeros(len(given), np.bool_)
        flagged[seen.index] = flags
        names = [self._classes[k] for k in given]
        labels = seen.sentence.labels
        return tuple(
            SuspectSpan(
                kind=suspect.kind,
                given_span=self._entity(suspect.given_span, labels, given=True),
                suggested_span=self._entity(suspect.suggested_span, labels, given=False),
                confidence=suspect.confidence,
            )
            for suspect in find_suspects(names, probs, self._classes, self._labels.scheme, flagged.tolist(), path=path)
        )

    def _entity(self, span: Span | None, labels: Sequence[str], *, given: bool) -> EntitySpan | None:
        if span is None:
            return None
        name = span.type
        if not self._own.same:
            name = self._own.source(labels[span.start]) if given else self._own.type_at(span, labels)
        return EntitySpan(start=span.start, end=span.end, type=name)


def likeliest_other(probs: npt.NDArray[np.float64], given: int) -> int:
    """The class that is suggested for a word: the likeliest, or the likeliest other one where that is the given."""
    best = int(probs.argmax())
    if best == given:
        others = probs.copy()
        others[given] = -1.0
        best = int(others.argmax())
    return best
