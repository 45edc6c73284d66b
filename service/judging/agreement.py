"""How far the given spans of sentences agree with those that the model finds, by annotator.

The model's spans are those of its suggestions (suspects.py): of the most probable valid label sequence, within the
dataset's label set. A type counts from the first sentence of the partition in which an annotator gave it, so that a type
that the dataset does not use is not taken for missed. The sums depend on the sentences of a partition and their order
alone, so they equal those of one pass after any crash.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from service.judging.suspects import decode_valid_path, find_disagreements
from service.labels import OUTSIDE, Span
from service.labels.schemes import group_entities, parse_label
from service.scoring.flat import drop_columns
from service.statistics.annotators.sums import (
    NO_SUMS,
    OTHER_ANNOTATORS,
    AnnotatorSums,
    SpanAgreement,
    SpanSums,
    to_week,
)
from service.statistics.running import to_bucket_day

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.judging.types import Observation, StatsUpdate
    from service.judging.unused_types import ClassesByType
    from service.labels import LabelMap

NO_AGREEMENT = SpanAgreement()


class SpanComparer:
    """Compares the spans of sentences that one judge has observed."""

    def __init__(self, label_map: LabelMap, learned_types: ClassesByType) -> None:
        """`learned_types`: types that count only once they were given, with their classes; the others always count."""
        self._classes = label_map.classes
        self._scheme = label_map.scheme
        self._tags = [parse_label(name, label_map.scheme) for name in label_map.classes]
        self._outside = label_map.classes.index(OUTSIDE) if OUTSIDE in label_map.classes else 0
        self._learned_types = learned_types

    def compare(self, observation: Observation, known_types: set[str]) -> SpanAgreement:
        """`known_types`: those that were given before. The types of this sentence are added to it."""
        given = observation.all_given.tolist()
        for word in observation.unscored:
            given[word] = self._outside
        given_spans = self._parse_spans(given)
        known_types.update(span.type for span in given_spans)
        if (observation.probs.argmax(axis=1) == observation.given).all():
            if not given_spans:
                return NO_AGREEMENT
            counts = Counter(span.type for span in given_spans)
            return SpanAgreement({name: SpanSums(n, n, n) for name, n in counts.items()})
        found_spans = self._parse_spans(self._decode(observation, known_types))
        types: dict[str, SpanSums] = {}
        matched = set(given_spans).intersection(found_spans)
        for spans, one in ((given_spans, _GIVEN), (found_spans, _FOUND), (matched, _MATCHED)):
            for span in spans:
                types[span.type] = types[span.type].merge(one) if span.type in types else one
        pairs = find_disagreements(given_spans, found_spans)
        return SpanAgreement(types, tuple((_name_type(a), _name_type(b)) for a, b in pairs))

    def _decode(self, observation: Observation, known_types: set[str]) -> list[int]:
        """The model's class of each word. A word without probabilities is outside, here and in the given spans."""
        probs = observation.probs
        unknown = [k for name, columns in self._learned_types.items() if name not in known_types for k in columns]
        if unknown and not observation.dropped:
            probs = drop_columns(probs, unknown)
        if observation.unscored:
            expanded = np.zeros((len(observation.all_given), len(self._classes)))
            expanded[:, self._outside] = 1.0
            expanded[observation.word_index] = probs
            probs = expanded
        return decode_valid_path(probs, self._classes, self._scheme)

    def _parse_spans(self, classes: list[int]) -> list[Span]:
        return [Span(*entity) for entity in group_entities(self._tags[k] for k in classes)]


_GIVEN, _FOUND, _MATCHED = SpanSums(given=1), SpanSums(found=1), SpanSums(matched=1)


def _name_type(span: Span | None) -> str:
    return OUTSIDE if span is None else span.type


def learn_annotators(
    comparer: SpanComparer,
    updates: Iterable[StatsUpdate],
    before: Mapping[str, AnnotatorSums],
    *,
    max_annotators: int,
) -> dict[str, AnnotatorSums]:
    """The new sums of the annotators of these sentences, which must be in the order of the partition.

    `before`: the sums of the partition. The first `max_annotators` of it have sums of their own.
    """
    names = before.keys() - {OTHER_ANNOTATORS}
    known_types = {name for sums in before.values() for name, spans in sums.types.items() if spans.given}
    learned: dict[str, list[tuple[SpanAgreement, str]]] = {}
    for update in updates:
        sentence = update.observation.sentence
        name = sentence.annotator
        if not name or update.arrived_at is None:
            continue
        if name not in names:
            if name == OTHER_ANNOTATORS or len(names) >= max_annotators:
                name = OTHER_ANNOTATORS
            else:
                names.add(name)
        week = to_week(to_bucket_day(sentence.annotated_at, update.arrived_at))
        learned.setdefault(name, []).append((comparer.compare(update.observation, known_types), week))
    return {name: before.get(name, NO_SUMS).add(sentences) for name, sentences in learned.items()}
