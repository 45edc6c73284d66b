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

from service.log.codec import to_position_key, to_position_value
from service.log.kafka.batching import take_fairly
from service.log.kafka.clients import to_records
from service.log.kafka.group_consumer import GroupConsumer, OffsetLostError
from service.log.kafka.library_fixes.watchdog import Watchdog
from service.log.kafka.log import KafkaLog
from service.log.kafka.state_restore import RESTORE_GRACE_S, RestoredPartition, StateRestorer
from service.log.kafka.transactional_producer import TransactionalProducer
from service.log.protocol import (
    MAX_BATCH_BYTES,
    BatchResult,
    CommitRefused,
    Output,
    PartitionAssignment,
    Rebalance,
    RecordBatch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafka import ConsumerGroupMetadata

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

RESTORE_POLL_TIMEOUT_S = 0.1  # where no partition delivers yet there is nothing else to do
COMMITTED_TIMEOUT_MS = 1_000


@dataclass(frozen=True, slots=True)
class Lease:
    """What a batch was read under; it can be committed only while this still holds."""

    epoch: int
    group_metadata: ConsumerGroupMetadata
    start_offsets: Mapping[int, int]


class KafkaWorkerSession(KafkaLog):
    """A `WorkerSession` over Kafka. Without a worker id it has no fixed identity, and leaves its group when it closes."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        *,
        group: str,
        worker_id: str | None = None,
        watchdog: Watchdog | None = None,
        restore_grace_s: float = RESTORE_GRACE_S,
    ) -> None:
        super().__init__(settings)
        self._topics = topics
        self._watchdog = watchdog or Watchdog()
        self._consumer = GroupConsumer(settings, topics.sentences, group=group, worker_id=worker_id)
        self._producer = TransactionalProducer(
            settings,
            transactional_id=f"{topics.prefix}{group}.{worker_id or uuid.uuid4().hex}",
            can_claim_id=self._consumer.can_claim_id,
            watchdog=self._watchdog,
        )
        self._restorer = StateRestorer(settings, topics, restore_grace_s=restore_grace_s)
        self._epoch = 0  # grows with everything after which a batch read before must not be committed
        self._assigned: set[int] = set()
        self._reported: set[int] = set()  # what the caller knows to be its own
        self._next_offsets: dict[int, int] = {}  # by partition that delivers: the offset to read next
        self._committed: dict[int, int] = {}
        self._gaps: dict[int, int] = {}
        self._last_served = -1  # the partition that came last in a batch that could not take all of them
        self._end_offsets: dict[int, int] = {}
        self._lag: dict[int, int] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        # The producer is tried again only when a partition waits for it: without one, what it said last is old.
        producer = self._producer.warning if self._restorer.pending_partitions else ""
        return tuple(one for one in (self._consumer.warning, producer, *self._restorer.warnings) if one)

    # -- partitions ------------------------------------------------------------------------------------------------

    @property
    def assignment_complete(self) -> bool:
        group = self._consumer.group_metadata()
        joined = group is not None and group.generation_id >= 0
        return joined and not self._consumer.rebalance_pending and not self._restorer.pending_partitions

    def poll_rebalance(self) -> Rebalance:
        lost = self._apply_rebalances()
        gained: list[PartitionAssignment] = []
        # The producer first: as it begins it aborts what we may have left open, which the restore would wait for.
        if self._restorer.pending_partitions and self._producer.ensure():
            wait = 0.0 if self._next_offsets else RESTORE_POLL_TIMEOUT_S
            gained = [self._resume_partition(restored) for restored in self._restorer.step(wait)]
        return Rebalance(gained, lost)

    def _apply_rebalances(self) -> list[int]:
        lost: list[int] = []
        for note in self._consumer.drain_rebalances():
            self._epoch += 1
            if note.assigned:
                self._assigned |= note.partitions
                self._restorer.request(note.partitions)
                continue
            self._assigned -= note.partitions
            self._restorer.cancel(note.partitions)
            lost += sorted(self._reported & note.partitions)
            self._reported -= note.partitions
            for partition in note.partitions:
                self._forget_partition(partition)
        return lost

    def _forget_partition(self, partition: int) -> None:
        for kept in (self._next_offsets, self._committed, self._gaps, self._end_offsets):
            kept.pop(partition, None)

    def _resume_partition(self, restored: RestoredPartition) -> PartitionAssignment:
        gained = restored.assignment
        partition = gained.partition
        self._log_offset_mismatch(gained)
        self._next_offsets[partition] = self._committed[partition] = gained.next_offset
        self._end_offsets[partition] = restored.source_end
        self._reported.add(partition)
        self._consumer.resume_from(partition, gained.next_offset)
        return gained

    def _log_offset_mismatch(self, assignment: PartitionAssignment) -> None:
        known = self._consumer.committed(assignment.partition, timeout_ms=COMMITTED_TIMEOUT_MS)
        if known is not None and known != assignment.next_offset:
            logger.info(
                "partition %d: goes on at %d, as its state says; the group's offset is %d",
                assignment.partition,
                assignment.next_offset,
                known,
            )

    def _restore_all(self) -> None:
        """Nothing in memory counts any more: every partition is stopped and read back."""
        self._epoch += 1
        for partition in self._assigned:
            self._consumer.pause(partition)
            self._forget_partition(partition)
        self._lag = {}  # not known until a partition delivers again
        self._restorer.request(self._assigned)

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        if self._restorer.pending_partitions and not self._next_offsets:
            timeout = min(timeout, RESTORE_POLL_TIMEOUT_S)  # nothing can come: go on restoring soon
        try:
            found = self._consumer.poll(max_records=max_records, timeout=timeout)
        except OffsetLostError as error:
            logger.warning("the place to read on is lost, the partitions are restored: %s", error)
            self._restore_all()
            return RecordBatch({})
        group = self._consumer.group_metadata()
        if self._consumer.rebalance_pending or group is None:
            # Partitions came or went meanwhile: what stays with us is read again once that is settled.
            for partition in found:
                if partition in self._next_offsets:
                    self._consumer.seek(partition, self._next_offsets[partition])
            return RecordBatch({})
        fitting = {
            partition: messages
            for partition, messages in found.items()
            if self._check_contiguous(partition, messages[0].offset)
        }
        fitting, left = take_fairly(fitting, max_bytes, last_served=self._last_served)
        self._last_served = next(reversed(fitting), self._last_served) if left else -1
        for partition, offset in left.items():
            self._consumer.seek(partition, offset)
        starts = {partition: self._next_offsets[partition] for partition in fitting}
        for partition, messages in fitting.items():
            self._next_offsets[partition] = messages[-1].offset + 1
        self._update_lag()
        records = {partition: to_records(messages) for partition, messages in fitting.items()}
        return RecordBatch(records, Lease(self._epoch, group, starts))

    def _check_contiguous(self, partition: int, first_offset: int) -> bool:
        """Whether a batch begins where the one before ended; if not it is dropped, and the partition sought back.

        Offsets may be missing in the log itself, where producers use transactions: a gap that is still there when
        we look for the second time is one of those.
        """
        wanted = self._next_offsets.get(partition)
        if wanted is None:
            return False
        seen = self._gaps.pop(partition, None)
        if first_offset == wanted or (first_offset > wanted and seen == first_offset):
            return True
        if first_offset > wanted:
            self._gaps[partition] = first_offset
        self._consumer.seek(partition, wanted)
        return False

    def _update_lag(self) -> None:
        for partition in self._next_offsets:
            self._end_offsets[partition] = max(self._end_offsets[partition], self._consumer.highwater(partition) or 0)
        self._lag = {
            partition: max(0, self._end_offsets[partition] - at) for partition, at in self._next_offsets.items()
        }

    def lag(self) -> dict[int, int]:
        return dict(self._lag)

    # -- writing ---------------------------------------------------------------------------------------------------

    def commit(self, result: BatchResult) -> None:
        offsets = result.batch.next_offsets
        lease = result.batch.lease
        refusal = self._explain_refusal(lease, offsets) if offsets else ""
        if refusal:
            self._restore_all()
            raise CommitRefused(refusal)
        outputs = list(self._iter_outputs(result))
        if not outputs:
            return
        try:
            self._producer.commit(
                outputs,
                {
                    TopicPartition(self._topics.sentences, at): OffsetAndMetadata(offset)
                    for at, offset in offsets.items()
                },
                lease.group_metadata if isinstance(lease, Lease) else None,
            )
        except BaseException:
            self._restore_all()
            raise
        self._committed |= offsets

    def _explain_refusal(self, lease: object, offsets: Mapping[int, int]) -> str:
        """Why the batch can't be committed. The broker takes offsets from a worker that is in no group: we must not."""
        if not isinstance(lease, Lease):
            return "the batch was not read from this log"
        if lease.epoch != self._epoch or self._consumer.rebalance_pending:
            return "partitions came or went, or another batch failed, since the batch was read"
        if lease.group_metadata.generation_id < 0 or not lease.group_metadata.member_id:
            return "the worker had no place in its group when the batch was read"
        now = self._consumer.group_metadata()
        if now is None or (now.generation_id, now.member_id) != (
            lease.group_metadata.generation_id,
            lease.group_metadata.member_id,
        ):
            return "the worker lost its place in the group: the batch took longer than max_poll_interval_ms allows"
        if any(lease.start_offsets[partition] != self._committed.get(partition) for partition in offsets):
            return "a batch before it was not committed"
        return ""

    def _iter_outputs(self, result: BatchResult) -> Iterator[Output]:
        state = self._topics.state
        yield from result.outputs
        for partition, values in result.state.items():
            for key, value in values.items():
                yield Output(state, key, value, partition=partition)
        for partition, offset in result.batch.next_offsets.items():
            yield Output(state, to_position_key(partition), to_position_value(offset), partition=partition)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()
        self._restorer.close()
        self._watchdog.close()
        super().close()
