"""How many sentences each batch of a dataset has, by what became of them: the denominators of its error rate.

A flagged sentence is in review. An unflagged one is there only if it was drawn for the control sample, with the control share
that was in force. So unflagged sentences are counted by that share, and those that were drawn too: one that is annotated again
or deleted leaves the queue, but not the sample.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from service.errors import StateError
from service.statistics.running import EMPTY_STATS_FIELDS
from service.statistics.snapshots import MAX_COUNT, SnapshotFormat, is_count

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BATCHES = 500  # of a dataset and partition; the one that is idle for the longest time is forgotten
MAX_SHARES = 16  # of a batch and partition; shares change seldom
OTHER_SHARES = ""  # counts sentences of further shares

BATCHES_FORMAT = SnapshotFormat(
    "the counts of batches",
    version=2,
    fields=("batches", "forgotten"),
    optional=tuple(EMPTY_STATS_FIELDS),
    min_reader=1,
)


@dataclass(frozen=True, slots=True)
class BatchCounts:
    """Sentences of one batch. Immutable: every method returns new counts."""

    flagged: int = 0
    unflagged: Mapping[str, int] = field(default_factory=dict)  # by the control share in force, as JSON writes it
    last_arrival_ms: int = 0
    drawn: Mapping[str, int] = field(
        default_factory=dict
    )  # those of `unflagged` that were drawn for the control sample

    @property
    def sentences(self) -> int:
        return self.flagged + sum(self.unflagged.values())

    def count(self, *, flagged: bool, drawn: bool, share: float, arrival_ms: int) -> BatchCounts:
        """With one more sentence, judged while the control share was `share`; `drawn`: it is in the control sample."""
        last = max(self.last_arrival_ms, arrival_ms)
        if flagged:
            return replace(self, flagged=self.flagged + 1, last_arrival_ms=last)
        name = json.dumps(float(share))
        if name not in self.unflagged and len(self.unflagged) >= MAX_SHARES:
            name = OTHER_SHARES
        unflagged = {**self.unflagged, name: self.unflagged.get(name, 0) + 1}
        in_sample = {**self.drawn, name: self.drawn.get(name, 0) + 1} if drawn else self.drawn
        return replace(self, unflagged=unflagged, drawn=in_sample, last_arrival_ms=last)

    def merge(self, other: BatchCounts) -> BatchCounts:
        """The sum of both, for counts of different partitions."""
        last = max(self.last_arrival_ms, other.last_arrival_ms)
        unflagged, drawn = _add(self.unflagged, other.unflagged), _add(self.drawn, other.drawn)
        return BatchCounts(self.flagged + other.flagged, unflagged, last, drawn)


def _add(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}


NO_SENTENCES = BatchCounts()


@dataclass(frozen=True, slots=True)
class DatasetBatches:
    """Counts of one dataset and source partition, or their sum. The batch with the last sentence comes last."""

    batches: Mapping[str, BatchCounts] = field(default_factory=dict)
    forgotten: int = 0  # batches that had to go for newer ones

    def count(self, batch: str, *, flagged: bool, drawn: bool, share: float, arrival_ms: int) -> DatasetBatches:
        batches = dict(self.batches)
        counts = batches.pop(batch, NO_SENTENCES)
        batches[batch] = counts.count(flagged=flagged, drawn=drawn, share=share, arrival_ms=arrival_ms)
        forgotten = self.forgotten
        while len(batches) > MAX_BATCHES:
            del batches[next(iter(batches))]
            forgotten += 1
        return DatasetBatches(batches, forgotten)

    def merge(self, other: DatasetBatches) -> DatasetBatches:
        """The sum of both, for counts of different partitions."""
        batches = dict(self.batches)
        for name, counts in other.batches.items():
            batches[name] = batches.get(name, NO_SENTENCES).merge(counts)
        return DatasetBatches(batches, self.forgotten + other.forgotten)

    def snapshot(self) -> dict[str, object]:
        """As a JSON object; equal counts give equal text."""
        entries = [
            {
                "name": name,
                "flagged": counts.flagged,
                "unflagged": {share: counts.unflagged[share] for share in sorted(counts.unflagged)},
                "last_arrival_ms": counts.last_arrival_ms,
                **({"drawn": {share: counts.drawn[share] for share in sorted(counts.drawn)}} if counts.drawn else {}),
            }
            for name, counts in self.batches.items()
        ]
        return BATCHES_FORMAT.write({"batches": entries, "forgotten": self.forgotten, **EMPTY_STATS_FIELDS})

    def to_json(self) -> bytes:
        """The value of its state record."""
        return json.dumps(self.snapshot(), ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def restore(cls, snapshot: object) -> DatasetBatches:
        """Reads `snapshot()` back; StateError if it is not valid."""
        fields = BATCHES_FORMAT.read(snapshot)
        entries, forgotten = fields["batches"], fields["forgotten"]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise StateError("`batches` should be a list of objects")
        if not is_count(forgotten):
            raise StateError(f"`forgotten` should be a number of batches, it is {forgotten!r}")
        batches = dict(_restore_entry(entry) for entry in entries)
        if len(batches) != len(entries):
            raise StateError("`batches` has a name twice")
        return cls(batches, forgotten)


def _restore_entry(entry: dict[str, Any]) -> tuple[str, BatchCounts]:
    name, flagged, last = (entry.get(key) for key in ("name", "flagged", "last_arrival_ms"))
    if not isinstance(name, str) or not name:
        raise StateError(f"a batch should have a name, it has {name!r}")
    unflagged = _restore_shares(entry.get("unflagged"), f"`unflagged` of batch {name[:40]!r}")
    drawn = _restore_shares(entry.get("drawn", {}), f"`drawn` of batch {name[:40]!r}")  # earlier releases wrote none
    if not is_count(flagged) or flagged > MAX_COUNT or not is_count(last):
        raise StateError(f"batch {name[:40]!r} should have a number of flagged sentences and a time")
    return name, BatchCounts(flagged, unflagged, last, drawn)


def _restore_shares(counts: object, what: str) -> dict[str, int]:
    if not isinstance(counts, dict) or not all(is_count(n) and n <= MAX_COUNT for n in counts.values()):
        raise StateError(f"{what} should be an object of counts")
    if any(share != OTHER_SHARES and not _is_share(share) for share in counts):
        raise StateError(f"{what} should have its counts by control share, from 0 to 1")
    return counts


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False
