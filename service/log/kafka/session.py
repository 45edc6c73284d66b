"""The transactional log: outputs, state and offsets of a batch in one Kafka transaction.

    assigned ─ paused at once ─ state read back from its topic ─ sought to the state's own next offset ─ resumed
    batch ─ begin, outputs + state + position, every message checked, offsets under the generation of the batch, commit
    any error ─ new producer, every partition paused, restored, sought

The state's next offset is the authority; the group's committed offset is there for tools that show lag.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import OffsetAndMetadata, TopicPartition

from service.log.codec import position_key, position_value
from service.log.kafka.batching import within
from service.log.kafka.clients import records_of
from service.log.kafka.compare_and_set import append_after
from service.log.kafka.follower import KafkaFollower, follow
from service.log.kafka.group_consumer import Member, PlaceLostError
from service.log.kafka.library_fixes.watchdog import Watchdog
from service.log.kafka.log import Appender
from service.log.kafka.state_restore import PATIENCE, Restored, Restorer
from service.log.kafka.transactional_producer import Committer
from service.log.protocol import BATCH_BYTES, Changes, CommitRefused, Gained, Output, Polled, Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafka import ConsumerGroupMetadata

    from service.log.kafka.settings import KafkaSettings
    from service.log.protocol import Spot
    from service.log.topics import Topics

log = logging.getLogger(__name__)

RESTORE_WAIT = 0.1  # where no partition delivers yet there is nothing else to do
COMMITTED_TIMEOUT_MS = 1_000


@dataclass(frozen=True, slots=True)
class Lease:
    """What a batch was read under; it can be committed only while this still holds."""

    epoch: int
    group: ConsumerGroupMetadata
    starts: Mapping[int, int]


class KafkaStream:
    """A `Stream` over Kafka. Without a worker id it makes one up, and leaves its group when it is closed."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        *,
        group: str,
        worker_id: str | None = None,
        watchdog: Watchdog | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._watchdog = watchdog or Watchdog()
        self._member = Member(settings, topics.sentences, group=group, worker_id=worker_id)
        self._committer = Committer(
            settings,
            transactional_id=f"{topics.prefix}{group}.{worker_id or uuid.uuid4().hex}",
            may_write=self._member.may_write,
            watchdog=self._watchdog,
        )
        self._restorer = Restorer(settings, topics, patience=patience)
        self._epoch = 0  # grows with everything after which a batch read before must not be committed
        self._assigned: set[int] = set()
        self._told: set[int] = set()  # what the caller knows to be its own
        self._next: dict[int, int] = {}  # by partition that delivers: the offset to read next
        self._committed: dict[int, int] = {}
        self._gaps: dict[int, int] = {}
        self._served = -1  # the partition that came last in a batch that could not take all of them
        self._ends: dict[int, int] = {}
        self._lag: dict[int, int] = {}
        self._appender = Appender(settings)

    @property
    def troubles(self) -> tuple[str, ...]:
        # The producer is tried again only when a partition waits for it: without one, what it said last is old.
        producer = self._committer.trouble if self._restorer.partitions else ""
        return tuple(one for one in (self._member.trouble, producer, *self._restorer.troubles) if one)

    # -- partitions ------------------------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        group = self._member.group()
        joined = group is not None and group.generation_id >= 0
        return joined and not self._member.has_news and not self._restorer.partitions

    def changes(self) -> Changes:
        lost = self._take_news()
        gained: list[Gained] = []
        # The producer first: as it begins it aborts what we may have left open, which the restore would wait for.
        if self._restorer.partitions and self._committer.ready():
            wait = 0.0 if self._next else RESTORE_WAIT
            gained = [self._release(restored) for restored in self._restorer.step(wait)]
        return Changes(gained, lost)

    def _take_news(self) -> list[int]:
        lost: list[int] = []
        for note in self._member.news():
            self._epoch += 1
            if note.came:
                self._assigned |= note.partitions
                self._restorer.want(note.partitions)
                continue
            self._assigned -= note.partitions
            self._restorer.forget(note.partitions)
            lost += sorted(self._told & note.partitions)
            self._told -= note.partitions
            for partition in note.partitions:
                self._stop(partition)
        return lost

    def _stop(self, partition: int) -> None:
        for kept in (self._next, self._committed, self._gaps, self._ends):
            kept.pop(partition, None)

    def _release(self, restored: Restored) -> Gained:
        gained = restored.gained
        partition = gained.partition
        self._note_difference(gained)
        self._next[partition] = self._committed[partition] = gained.next_offset
        self._ends[partition] = restored.source_end
        self._told.add(partition)
        self._member.release(partition, gained.next_offset)
        return gained

    def _note_difference(self, gained: Gained) -> None:
        known = self._member.committed(gained.partition, timeout_ms=COMMITTED_TIMEOUT_MS)
        if known is not None and known != gained.next_offset:
            log.info(
                "partition %d: goes on at %d, as its state says; the group's offset is %d",
                gained.partition,
                gained.next_offset,
                known,
            )

    def _restore_all(self) -> None:
        """Nothing in memory counts any more: every partition is stopped and read back."""
        self._epoch += 1
        for partition in self._assigned:
            self._member.hold(partition)
            self._stop(partition)
        self._lag = {}  # not known until a partition delivers again
        self._restorer.want(self._assigned)

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = BATCH_BYTES) -> Polled:
        if self._restorer.partitions and not self._next:
            timeout = min(timeout, RESTORE_WAIT)  # nothing can come: go on restoring soon
        try:
            found = self._member.poll(max_records=max_records, timeout=timeout)
        except PlaceLostError as error:
            log.warning("the place to read on is lost, the partitions are restored: %s", error)
            self._restore_all()
            return Polled({})
        group = self._member.group()
        if self._member.has_news or group is None:
            # Partitions came or went meanwhile: what stays with us is read again once that is settled.
            for partition in found:
                if partition in self._next:
                    self._member.seek(partition, self._next[partition])
            return Polled({})
        fitting = {
            partition: messages for partition, messages in found.items() if self._fits(partition, messages[0].offset)
        }
        fitting, left = within(fitting, max_bytes, last=self._served)
        self._served = next(reversed(fitting), self._served) if left else -1
        for partition, offset in left.items():
            self._member.seek(partition, offset)
        starts = {partition: self._next[partition] for partition in fitting}
        for partition, messages in fitting.items():
            self._next[partition] = messages[-1].offset + 1
        self._note_lag()
        records = {partition: records_of(messages) for partition, messages in fitting.items()}
        return Polled(records, Lease(self._epoch, group, starts))

    def _fits(self, partition: int, first: int) -> bool:
        """Whether a batch begins where the one before ended; if not it is dropped, and the partition sought back.

        Offsets may be missing in the log itself, where producers use transactions: a gap that is still there when
        we look for the second time is one of those.
        """
        wanted = self._next.get(partition)
        if wanted is None:
            return False
        seen = self._gaps.pop(partition, None)
        if first == wanted or (first > wanted and seen == first):
            return True
        if first > wanted:
            self._gaps[partition] = first
        self._member.seek(partition, wanted)
        return False

    def _note_lag(self) -> None:
        for partition in self._next:
            self._ends[partition] = max(self._ends[partition], self._member.highwater(partition) or 0)
        self._lag = {partition: max(0, self._ends[partition] - at) for partition, at in self._next.items()}

    def lag(self) -> dict[int, int]:
        return dict(self._lag)

    def follow(self, topic: str) -> KafkaFollower:
        return follow(self._settings, topic)

    # -- writing ---------------------------------------------------------------------------------------------------

    def commit(self, work: Work) -> None:
        offsets = work.polled.next_offsets
        lease = work.polled.lease
        refusal = self._refusal(lease, offsets) if offsets else ""
        if refusal:
            self._restore_all()
            raise CommitRefused(refusal)
        outputs = list(self._outputs(work))
        if not outputs:
            return
        try:
            self._committer.commit(
                outputs,
                {
                    TopicPartition(self._topics.sentences, at): OffsetAndMetadata(offset)
                    for at, offset in offsets.items()
                },
                lease.group if isinstance(lease, Lease) else None,
            )
        except BaseException:
            self._restore_all()
            raise
        self._committed |= offsets

    def _refusal(self, lease: object, offsets: Mapping[int, int]) -> str:
        """Why the batch can't be committed. The broker takes offsets from a worker that is in no group: we must not."""
        if not isinstance(lease, Lease):
            return "the batch was not read from this log"
        if lease.epoch != self._epoch or self._member.has_news:
            return "partitions came or went, or another batch failed, since the batch was read"
        if lease.group.generation_id < 0 or not lease.group.member_id:
            return "the worker had no place in its group when the batch was read"
        now = self._member.group()
        if now is None or (now.generation_id, now.member_id) != (lease.group.generation_id, lease.group.member_id):
            return "the worker lost its place in the group: the batch took longer than max_poll_interval_ms allows"
        if any(lease.starts[partition] != self._committed.get(partition) for partition in offsets):
            return "a batch before it was not committed"
        return ""

    def _outputs(self, work: Work) -> Iterator[Output]:
        state = self._topics.state
        yield from work.outputs
        for partition, values in work.state.items():
            for key, value in values.items():
                yield Output(state, key, value, partition=partition)
        for partition, offset in work.polled.next_offsets.items():
            yield Output(state, position_key(partition), position_value(offset), partition=partition)

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        self._appender.append(outputs, timeout=timeout)

    def append_after(self, output: Output, seen: Spot | None, *, timeout: float = 30.0) -> None:
        append_after(self._settings, output, seen, timeout=timeout)

    def close(self) -> None:
        self._committer.close()
        self._member.close()
        self._restorer.close()
        self._watchdog.close()
        self._appender.close()
