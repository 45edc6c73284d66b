"""The sums of each annotator by stats key and source partition, as records of the state topic: one record per annotator.

Only the annotators of a batch are written with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.log.codec import to_annotator_key
from service.statistics.annotators.sums import merge_annotators

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.statistics.annotators.sums import AnnotatorSums
    from service.stream.state.snapshot import StatsKey

    SumsByAnnotator = Mapping[str, AnnotatorSums]
    AnnotatorsByKey = Mapping[StatsKey, Mapping[int, SumsByAnnotator]]


@dataclass(frozen=True, slots=True)
class AnnotatorRecord:
    """The sums of one annotator, stats key and source partition; `sums` is None for a tombstone."""

    partition: int
    key: StatsKey
    annotator: str
    sums: AnnotatorSums | None

    @property
    def dataset(self) -> str:
        return self.key.dataset

    @property
    def is_tombstone(self) -> bool:
        return self.sums is None

    def to_key(self) -> bytes:
        return to_annotator_key(self.partition, *self.key, self.annotator)


def sum_partitions(by_key: AnnotatorsByKey, dataset: str, stats_key: str | None = None) -> dict[str, AnnotatorSums]:
    """The sums by annotator from all partitions, of one stats key or of all that the dataset has had."""
    return merge_annotators(
        annotators
        for key, partitions in by_key.items()
        if key.dataset == dataset and stats_key in (None, key.stats_key)
        for annotators in partitions.values()
    )


class AnnotatorDraft:
    """Changes on top of the sums of a snapshot, which stay as they are."""

    def __init__(self, before: AnnotatorsByKey) -> None:
        self._before = before
        self._changed: dict[StatsKey, dict[int, dict[str, AnnotatorSums]]] = {}
        self._learned: set[tuple[int, StatsKey, str]] = set()

    def apply(self, record: AnnotatorRecord) -> None:
        annotators = self._copy(record.partition, record.key)
        if record.sums is None:
            annotators.pop(record.annotator, None)
        else:
            annotators[record.annotator] = record.sums

    def clear_partition(self, partition: int) -> None:
        for key in {*self._before, *self._changed}:
            if self.get(partition, key):
                self._copy(partition, key).clear()

    def get(self, partition: int, key: StatsKey) -> SumsByAnnotator:
        """The sums by annotator, with the changes of this draft."""
        return self._changed.get(key, self._before.get(key, {})).get(partition, {})

    def put(self, partition: int, key: StatsKey, learned: SumsByAnnotator) -> None:
        """New sums of some annotators."""
        if learned:
            self._copy(partition, key).update(learned)
            self._learned |= {(partition, key, name) for name in learned}

    def iter_records(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Partition, key and value of each record that has changed by `put`."""
        for partition, key, name in sorted(self._learned):
            yield partition, to_annotator_key(partition, *key, name), self.get(partition, key)[name].to_json()

    def to_mapping(self) -> AnnotatorsByKey:
        if not self._changed:
            return self._before
        merged = dict(self._before)
        for key, partitions in self._changed.items():
            merged[key] = {partition: annotators for partition, annotators in partitions.items() if annotators}
            if not merged[key]:
                del merged[key]
        return merged

    def _copy(self, partition: int, key: StatsKey) -> dict[str, AnnotatorSums]:
        """The annotators of a key and partition, for this draft to change."""
        if key not in self._changed:
            self._changed[key] = {p: dict(annotators) for p, annotators in self._before.get(key, {}).items()}
        return self._changed[key].setdefault(partition, {})
