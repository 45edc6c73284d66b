"""What has arrived in a dataset: sentences by label, how many wait for a model, and how many a model has flagged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from service.contracts.defaults import MAX_LABEL_CHARS
from service.errors import StateError
from service.statistics.running import EMPTY_STATS_FIELDS
from service.statistics.snapshots import MAX_COUNT, SnapshotFormat, is_count, read_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_LABELS = 1_000  # a faulty producer could otherwise fill the state with labels
OTHER_LABELS = ""  # counts the labels beyond both limits; no label is empty text

ARRIVALS_FORMAT = SnapshotFormat(
    "the counts of arrivals",
    version=2,
    fields=("labels", "waiting", "next_offset", "flags"),
    optional=tuple(EMPTY_STATS_FIELDS),
    min_reader=1,
)


class FlagCounts(NamedTuple):
    """Sentences that a model has judged, and those of them with a flagged word, whatever the policy sent to review."""

    sentences: int = 0
    flagged: int = 0

    def merge(self, other: FlagCounts) -> FlagCounts:
        return FlagCounts(self.sentences + other.sentences, self.flagged + other.flagged)


NO_FLAGS = FlagCounts()


@dataclass(frozen=True, slots=True)
class ArrivalCounts:
    """Counts of one dataset and source partition, or their sum. Immutable: every method returns new counts.

    The counts of labels don't depend on a model: they say which model fits the dataset, before and after a change of
    model or label map. Flags are counted by stats key, for the last one only: with another model they start anew.
    """

    labels: Mapping[str, int] = field(default_factory=dict)  # sentences that contain the label; "O" is not counted
    waiting: int = 0  # records that are stored until the dataset has a model
    next_offset: int = 0  # stored records before this offset of the input are released; 0 in a sum
    flags: Mapping[str, FlagCounts] = field(default_factory=dict)  # by stats key, one in a partition

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

    def count_flags(self, stats_key: str, counts: FlagCounts) -> ArrivalCounts:
        """With more sentences that were judged with these statistics."""
        return replace(self, flags={stats_key: self.flags.get(stats_key, NO_FLAGS).merge(counts)})

    def merge(self, other: ArrivalCounts) -> ArrivalCounts:
        """The sum of both, for counts of different partitions."""
        labels = dict(self.labels)
        for label, count in other.labels.items():
            labels[label] = labels.get(label, 0) + count
        flags = dict(self.flags)
        for stats_key, counts in other.flags.items():
            flags[stats_key] = flags.get(stats_key, NO_FLAGS).merge(counts)
        return ArrivalCounts(labels, self.waiting + other.waiting, flags=flags)

    def snapshot(self) -> dict[str, object]:
        """As a JSON object; equal counts give equal text."""
        fields = {
            "labels": {label: self.labels[label] for label in sorted(self.labels)},
            "waiting": self.waiting,
            "next_offset": self.next_offset,
            "flags": {stats_key: list(self.flags[stats_key]) for stats_key in sorted(self.flags)},
        }
        return ARRIVALS_FORMAT.write({**fields, **EMPTY_STATS_FIELDS})

    def to_json(self) -> bytes:
        """The value of its state record."""
        return json.dumps(self.snapshot(), ensure_ascii=False, separators=(",", ":")).encode()

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
        return cls(labels, waiting, next_offset, _read_flags(fields["flags"]))


def _read_flags(value: object) -> dict[str, FlagCounts]:
    if not isinstance(value, dict):
        raise StateError("`flags` should be an object of counts by stats key")
    flags: dict[str, FlagCounts] = {}
    for stats_key, pair in value.items():
        counts = read_counts(pair, "`flags`")
        if len(counts) != 2 or not counts[1] <= counts[0] <= MAX_COUNT:
            raise StateError(f"`flags` should have the numbers of judged and of flagged sentences, not {pair!r}")
        flags[stats_key] = FlagCounts(*counts)
    return flags
