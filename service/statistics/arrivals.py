"""What has arrived in a dataset: sentences by label, and how many of them wait for a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from service.errors import StateError
from service.statistics.histogram import PriorityHistogram
from service.statistics.snapshots import MAX_COUNT, SnapshotFormat, is_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_LABELS = 1_000  # a faulty producer could otherwise fill the state with labels
MAX_LABEL_CHARS = 202  # the longest entity type, with a prefix
OTHER_LABELS = ""  # counts the labels beyond both limits; no label is empty text

# Releases before this record take every record of the state for running statistics and stop at one they can't read. So
# the record also has the fields of empty statistics, and its version follows theirs: they read it and go on.
_EMPTY_STATISTICS: dict[str, object] = {
    "n_classes": 1,
    "keep_days": None,
    "buckets": {},
    "histogram": PriorityHistogram.empty().snapshot(),
}
ARRIVALS_FORMAT = SnapshotFormat(
    "the counts of arrivals",
    version=2,
    fields=("labels", "waiting", "next_offset"),
    optional=tuple(_EMPTY_STATISTICS),
    min_reader=1,
)


@dataclass(frozen=True, slots=True)
class ArrivalCounts:
    """Counts of one dataset and source partition, or their sum. Immutable: every method returns new counts.

    They don't depend on a model: the counts of labels say which model fits the dataset, before and after a change of
    model or label map.
    """

    labels: Mapping[str, int] = field(default_factory=dict)  # sentences that contain the label; "O" is not counted
    waiting: int = 0  # records that are stored until the dataset has a model
    next_offset: int = 0  # stored records before this offset of the input are released; 0 in a sum

    def count_labels(self, labels: Iterable[str]) -> ArrivalCounts:
        """With one more sentence, which contains these labels, each of them once."""
        counts = dict(self.labels)
        for label in labels:
            is_counted = label in counts or (len(counts) < MAX_LABELS and 0 < len(label) <= MAX_LABEL_CHARS)
            name = label if is_counted else OTHER_LABELS
            counts[name] = counts.get(name, 0) + 1
        return replace(self, labels=counts)

    def store(self) -> ArrivalCounts:
        """With one more record that waits."""
        return replace(self, waiting=self.waiting + 1)

    def release(self, offset: int) -> ArrivalCounts:
        """Without the waiting record that had this offset of the input. Records are released in the order of offsets."""
        return replace(self, waiting=max(0, self.waiting - 1), next_offset=offset + 1)

    def forget_waiting(self) -> ArrivalCounts:
        """Without any waiting records."""
        return replace(self, waiting=0)

    def merge(self, other: ArrivalCounts) -> ArrivalCounts:
        """The sum of both, for counts of different partitions."""
        labels = dict(self.labels)
        for label, count in other.labels.items():
            labels[label] = labels.get(label, 0) + count
        return ArrivalCounts(labels, self.waiting + other.waiting)

    def snapshot(self) -> dict[str, object]:
        """As a JSON object; equal counts give equal text."""
        fields = {
            "labels": {label: self.labels[label] for label in sorted(self.labels)},
            "waiting": self.waiting,
            "next_offset": self.next_offset,
        }
        return ARRIVALS_FORMAT.write({**fields, **_EMPTY_STATISTICS})

    @classmethod
    def restore(cls, snapshot: object) -> ArrivalCounts:
        """Reads `snapshot()` back; StateError if it is not valid."""
        fields = ARRIVALS_FORMAT.read(snapshot)
        labels, waiting, next_offset = fields["labels"], fields["waiting"], fields["next_offset"]
        if not isinstance(labels, dict) or not all(is_count(n) and n <= MAX_COUNT for n in labels.values()):
            raise StateError("`labels` should be an object of counts by label")
        if not is_count(waiting) or waiting > MAX_COUNT:
            raise StateError(f"`waiting` should be a number of records, it is {waiting!r}")
        if not is_count(next_offset):
            raise StateError(f"`next_offset` should be an offset, it is {next_offset!r}")
        return cls(labels, waiting, next_offset)
