"""Reads stored sentences back, once their dataset has a model that fits.

The owner of a partition is the only one that stores its sentences and the only one that releases them. Both happen in the
transaction of a batch, together with the counts, so each stored record is judged exactly once.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.protocol import RecordBatch, ReleasedRecords
from service.log.waiting_records import get_waiting_dataset, read_stored_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from service.datasets.waiting import WaitingDataset
    from service.log.protocol import Follower, StoredRecord, WorkerSession
    from service.log.topics import Topics
    from service.statistics.arrivals import ArrivalCounts
    from service.stream.state.snapshot import StateSnapshot

    Releasable = Mapping[int, Mapping[str, ArrivalCounts]]  # by partition and dataset


VISIBLE_TIMEOUT_S = 1.0


def find_releasable(
    snapshot: StateSnapshot, waiting: Iterable[WaitingDataset], partitions: Collection[int]
) -> Releasable:
    """What is stored of datasets that fit by now, in these partitions."""
    found: dict[int, dict[str, ArrivalCounts]] = {}
    for dataset in (each.name for each in waiting if each.fits):
        for partition, counts in snapshot.get_arrivals(dataset).partitions.items():
            if counts.waiting and partition in partitions:
                found.setdefault(partition, {})[dataset] = counts
    return found


@dataclass(slots=True)
class PartitionReader:
    """Reads the stored records of some datasets in one partition of the waiting topic, from its beginning."""

    follower: Follower
    next_offsets: Mapping[str, int]  # by dataset: records before it in the input are released already
    records: deque[StoredRecord]
    found: bool = False  # any record that is to be released
    idle_since: float | None = None  # when it first had none; None: the last read found some

    def read(self) -> None:
        """Reads more records. None are left if `exhausted` is true afterwards."""
        for record in self.follower.poll():
            if record.value is None or get_waiting_dataset(record) not in self.next_offsets:
                continue
            stored = read_stored_record(record)
            if stored.record.offset >= self.next_offsets[stored.dataset]:
                self.records.append(stored)
        if self.records:
            self.found, self.idle_since = True, None
        elif self.idle_since is None:
            self.idle_since = time.monotonic()

    @property
    def exhausted(self) -> bool:
        return not self.records and self.follower.caught_up

    def take(self, max_records: int, max_bytes: int) -> list[StoredRecord]:
        """The next records within both limits, but at least one if there is one."""
        taken: list[StoredRecord] = []
        size = 0
        while self.records and len(taken) < max_records:
            size += len(self.records[0].record.value or b"")
            if taken and size > max_bytes:
                break
            taken.append(self.records.popleft())
        return taken

    @property
    def may_continue(self) -> bool:
        """Whether to ask again for a moment: the records of the last commit are not visible at once.

        To read from the beginning takes longer, and meanwhile more would arrive.
        """
        return self.found and self.idle_since is not None and time.monotonic() - self.idle_since < VISIBLE_TIMEOUT_S


class ReleaseReader:
    """What waits in the assigned partitions. One thread uses it."""

    def __init__(self, session: WorkerSession, topics: Topics) -> None:
        self._session = session
        self._topics = topics
        self._readers: dict[int, PartitionReader] = {}

    def add_released(
        self, batch: RecordBatch, releasable: Releasable, *, max_records: int, max_bytes: int
    ) -> RecordBatch:
        """The batch with stored records of its partitions, in total within both limits."""
        self._close(self._readers.keys() - releasable.keys())
        released: dict[int, ReleasedRecords] = {}
        for partition, datasets in releasable.items():
            if partition not in batch.partitions or max_records <= 0 or max_bytes <= 0:
                continue
            release = self._read(partition, datasets, max_records, max_bytes)
            if release.records or release.missing:
                released[partition] = release
            max_records -= len(release.records)
            max_bytes -= sum(len(stored.record.value or b"") for stored in release.records)
        return replace(batch, released=released)

    def _read(
        self, partition: int, datasets: Mapping[str, ArrivalCounts], max_records: int, max_bytes: int
    ) -> ReleasedRecords:
        reader = self._readers.get(partition)
        if reader is None or reader.next_offsets.keys() != datasets.keys():
            self._close([partition])
            next_offsets = {dataset: counts.next_offset for dataset, counts in datasets.items()}
            follower = self._session.follow_partition(self._topics.waiting, partition)
            reader = self._readers[partition] = PartitionReader(follower, next_offsets, deque())
        if not reader.records:
            reader.read()
        if not reader.exhausted:
            return ReleasedRecords(reader.take(max_records, max_bytes))
        if reader.may_continue:
            return ReleasedRecords()
        # A reader that was opened before the last commit may have missed its records: only a new one knows.
        self._close([partition])
        return ReleasedRecords() if reader.found else ReleasedRecords(missing=frozenset(datasets))

    def _close(self, partitions: Iterable[int]) -> None:
        for partition in list(partitions):
            reader = self._readers.pop(partition, None)
            if reader is not None:
                with suppress(StreamError):
                    reader.follower.close()

    def close(self) -> None:
        """Forgets what was read and not committed; the next call reads again from the beginning."""
        self._close(self._readers)
