"""A worker's session on Kafka: outputs, state and offsets of a batch in one transaction.

    assigned     pause at once, read the state from its topic, seek to the next offset in the state, resume
    each batch   begin; send outputs, state and position; check every message; send offsets under the generation that the
                 batch was read in; commit
    any error    new producer; pause, restore and seek every partition

The next offset in the state is the authority. The committed offset of the group only serves tools that show lag.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import OffsetAndMetadata, TopicPartition

from service.log.codec import to_position_key, to_position_value
from service.log.kafka.clients import to_records
from service.log.kafka.follower import KafkaFollower, follow
from service.log.kafka.library_fixes.transactions.watchdog import Watchdog
from service.log.kafka.log import KafkaLog
from service.log.kafka.worker.batching import take_fairly
from service.log.kafka.worker.dead_workers import DeadWorkerFencer
from service.log.kafka.worker.giving_way import GivingWay
from service.log.kafka.worker.group_consumer import GroupConsumer, OffsetLostError
from service.log.kafka.worker.state_restore import RESTORE_GRACE_S, RestoredPartition, StateRestorer
from service.log.kafka.worker.transactional_producer import TransactionalProducer
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

RESTORE_POLL_TIMEOUT_S = 0.1  # while every partition is being restored
COMMITTED_TIMEOUT_MS = 300  # the offset only serves a log line
PAUSED_END_INTERVAL_S = 5.0
PAUSED_END_TIMEOUT_MS = 1_000


@dataclass(frozen=True, slots=True)
class Lease:
    """The assignment that a batch was read under. The batch can be committed only while it is still valid."""

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
        identity, id_prefix = worker_id or uuid.uuid4().hex, f"{topics.prefix}{group}."
        self._consumer = GroupConsumer(settings, topics.sentences, group=group, worker_id=worker_id, identity=identity)
        self._giving_way = GivingWay(settings, self._consumer, group=group)
        self._producer = TransactionalProducer(
            settings,
            transactional_id=f"{id_prefix}{identity}",
            can_claim_id=self._consumer.can_claim_id,
            watchdog=self._watchdog,
            must_give_way=lambda: self._giving_way.is_due,
        )
        fencer = DeadWorkerFencer(settings, group=group, id_prefix=id_prefix)
        self._restorer = StateRestorer(settings, topics, fence=fencer.fence, restore_grace_s=restore_grace_s)
        self._epoch = 0  # increases when batches that were read before must not be committed any more
        self._assigned: set[int] = set()
        self._reported: set[int] = set()  # partitions that `poll_rebalance` has returned as assigned
        self._next_offsets: dict[int, int] = {}  # of the partitions that are resumed
        self._committed: dict[int, int] = {}
        self._paused: set[int] = set()  # by the worker
        self._paused_end_read_at = 0.0
        self._gaps: dict[int, int] = {}
        self._last_served = -1  # the last partition of a batch that could not take all messages
        self._end_offsets: dict[int, int] = {}
        self._lag: dict[int, int] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        # The producer retries only while a partition waits for it. Otherwise its last warning is out of date.
        producer_warning = self._producer.warning if self._restorer.pending_partitions else ""
        warnings = (self._consumer.warning, self._giving_way.warning, producer_warning, *self._restorer.warnings)
        return tuple(warning for warning in warnings if warning)

    # -- partitions ------------------------------------------------------------------------------------------------

    @property
    def assignment_complete(self) -> bool:
        metadata = self._consumer.group_metadata()
        joined = metadata is not None and metadata.generation_id >= 0
        return joined and not self._consumer.rebalance_pending and not self._restorer.pending_partitions

    def poll_rebalance(self) -> Rebalance:
        self._giving_way.step(has_partitions=bool(self._assigned))
        revoked = self._apply_rebalance_events()
        assigned: list[PartitionAssignment] = []
        # The producer comes first: it aborts the worker's own open transaction, which the restore would wait for.
        if self._restorer.pending_partitions and self._producer.ensure():
            timeout = 0.0 if self._next_offsets else RESTORE_POLL_TIMEOUT_S
            restored = self._restorer.step(timeout)
            if restored:
                self._consumer.refresh_leaders()
            assigned = [self._resume_partition(each) for each in restored]
        return Rebalance(assigned, revoked)

    def _apply_rebalance_events(self) -> list[int]:
        """Starts to restore assigned partitions. Returns the revoked ones that the caller knows as assigned."""
        revoked: list[int] = []
        for event in self._consumer.drain_rebalances():
            self._epoch += 1
            if event.kind == "assigned":
                self._assigned |= event.partitions
                self._restorer.request(event.partitions)
                continue
            self._assigned -= event.partitions
            self._restorer.cancel(event.partitions)
            revoked += sorted(self._reported & event.partitions)
            self._reported -= event.partitions
            for partition in event.partitions:
                self._forget_offsets(partition)
        return revoked

    def _forget_offsets(self, partition: int) -> None:
        for offsets in (self._next_offsets, self._committed, self._gaps, self._end_offsets):
            offsets.pop(partition, None)
        self._paused.discard(partition)

    def _resume_partition(self, restored: RestoredPartition) -> PartitionAssignment:
        assignment = restored.assignment
        partition = assignment.partition
        self._log_offset_mismatch(assignment)
        self._next_offsets[partition] = self._committed[partition] = assignment.next_offset
        self._end_offsets[partition] = restored.source_end
        self._reported.add(partition)
        self._consumer.resume_from(partition, assignment.next_offset)
        return assignment

    def _log_offset_mismatch(self, assignment: PartitionAssignment) -> None:
        committed = self._consumer.committed(assignment.partition, timeout_ms=COMMITTED_TIMEOUT_MS)
        if committed is not None and committed != assignment.next_offset:
            logger.info(
                "partition %d: continues at offset %d of its state; the committed offset of the group is %d",
                assignment.partition,
                assignment.next_offset,
                committed,
            )

    def _restore_all(self) -> None:
        """Pauses every partition and restores it from the log."""
        self._epoch += 1
        for partition in self._assigned:
            self._consumer.pause(partition)
            self._forget_offsets(partition)
        self._lag = {}  # unknown until a partition is resumed
        self._restorer.request(self._assigned)

    # -- reading ---------------------------------------------------------------------------------------------------

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        if self._restorer.pending_partitions and not self._next_offsets:
            timeout = min(timeout, RESTORE_POLL_TIMEOUT_S)
        try:
            polled = self._consumer.poll(max_records=max_records, timeout=timeout)
        except OffsetLostError as error:
            logger.warning("a position is lost, all partitions are restored: %s", error)
            self._restore_all()
            return RecordBatch({})
        metadata = self._consumer.group_metadata()
        if self._consumer.rebalance_pending or metadata is None:
            # A rebalance happened during the poll. The messages of partitions that remain assigned are read again.
            for partition in polled:
                if partition in self._next_offsets:
                    self._consumer.seek(partition, self._next_offsets[partition])
            return RecordBatch({})
        contiguous = {
            partition: messages
            for partition, messages in polled.items()
            if self._check_contiguous(partition, messages[0].offset)
        }
        batch, remaining_offsets = take_fairly(contiguous, max_bytes, last_served=self._last_served)
        self._last_served = next(reversed(batch), self._last_served) if remaining_offsets else -1
        for partition, offset in remaining_offsets.items():
            self._consumer.seek(partition, offset)
        start_offsets = dict(self._next_offsets)
        for partition, messages in batch.items():
            self._next_offsets[partition] = messages[-1].offset + 1
        self._update_lag()
        records = {partition: to_records(messages) for partition, messages in batch.items()}
        return RecordBatch(records, Lease(self._epoch, metadata, start_offsets), frozenset(start_offsets))

    def _check_contiguous(self, partition: int, first_offset: int) -> bool:
        """Whether the messages begin at the next offset. If not, seeks back to it; the messages must be dropped.

        Producers with transactions leave gaps in the offsets of the log itself. A gap that appears twice is one of those.
        """
        next_offset = self._next_offsets.get(partition)
        if next_offset is None:
            return False
        gap_end = self._gaps.pop(partition, None)
        if first_offset == next_offset or (first_offset > next_offset and gap_end == first_offset):
            return True
        if first_offset > next_offset:
            self._gaps[partition] = first_offset
        self._consumer.seek(partition, next_offset)
        return False

    def _update_lag(self) -> None:
        self._update_paused_ends()
        for partition in self._next_offsets:
            self._end_offsets[partition] = max(self._end_offsets[partition], self._consumer.highwater(partition) or 0)
        self._lag = {
            partition: max(0, self._end_offsets[partition] - offset) for partition, offset in self._next_offsets.items()
        }

    def follow_partition(self, topic: str, partition: int) -> KafkaFollower:
        return follow(self._settings, topic, partition=partition)

    def _update_paused_ends(self) -> None:
        """Asks for the ends of paused partitions: nothing is fetched for them, so the client does not learn them."""
        if self._paused and time.monotonic() - self._paused_end_read_at >= PAUSED_END_INTERVAL_S:
            self._paused_end_read_at = time.monotonic()
            for partition in self._paused:
                end = self._consumer.end_offset(partition, timeout_ms=PAUSED_END_TIMEOUT_MS)
                self._end_offsets[partition] = max(self._end_offsets[partition], end or 0)

    def lag(self) -> dict[int, int]:
        return dict(self._lag)

    def pause(self, partition: int, next_offset: int) -> None:
        if partition in self._next_offsets:
            self._consumer.pause(partition)
            # What is committed ends before a gap that `next_offset` may stand behind.
            self._next_offsets[partition] = next_offset = min(next_offset, self._committed[partition])
            self._gaps.pop(partition, None)
            self._paused.add(partition)
            self._lag = {**self._lag, partition: max(0, self._end_offsets[partition] - next_offset)}

    def resume(self, partition: int) -> None:
        if partition in self._paused:
            self._paused.discard(partition)
            self._consumer.resume_from(partition, self._next_offsets[partition])

    # -- writing ---------------------------------------------------------------------------------------------------

    def commit(self, result: BatchResult) -> None:
        lease = result.batch.lease
        offsets = self._get_commit_offsets(result.batch)
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
                    TopicPartition(self._topics.sentences, partition): OffsetAndMetadata(offset)
                    for partition, offset in offsets.items()
                },
                lease.group_metadata if isinstance(lease, Lease) else None,
            )
        except BaseException:
            self._restore_all()
            raise
        self._committed |= offsets

    def _get_commit_offsets(self, batch: RecordBatch) -> dict[int, int]:
        """The offsets to commit. A partition with released records only commits the one it is at: without an offset
        the broker would not check that the worker still owns the partition.
        """
        start_offsets = batch.lease.start_offsets if isinstance(batch.lease, Lease) else {}
        return {partition: start_offsets.get(partition, 0) for partition in batch.released} | batch.next_offsets

    def _explain_refusal(self, lease: object, offsets: Mapping[int, int]) -> str:
        """Why the batch must not be committed; empty if it may.

        The broker can't decide this alone: it accepts offsets from a worker that has lost its membership, with generation
        -1 and an empty member id.
        """
        if not isinstance(lease, Lease):
            return "the batch was not read from this log"
        if lease.epoch != self._epoch or self._consumer.rebalance_pending:
            return "a rebalance happened, or another batch failed, after the batch was read"
        if lease.group_metadata.generation_id < 0 or not lease.group_metadata.member_id:
            return "the worker was not a member of its group when the batch was read"
        metadata = self._consumer.group_metadata()
        if metadata is None or (metadata.generation_id, metadata.member_id) != (
            lease.group_metadata.generation_id,
            lease.group_metadata.member_id,
        ):
            return "the worker lost its membership in the group: the batch took longer than max_poll_interval_ms"
        if any(lease.start_offsets[partition] != self._committed.get(partition) for partition in offsets):
            return "an earlier batch was not committed"
        return ""

    def _iter_outputs(self, result: BatchResult) -> Iterator[Output]:
        yield from result.outputs
        for partition, values in result.state.items():
            for key, value in values.items():
                yield Output(self._topics.state, key, value, partition=partition)
        for partition, offset in result.batch.next_offsets.items():
            position_key, position_value = to_position_key(partition), to_position_value(offset)
            yield Output(self._topics.state, position_key, position_value, partition=partition)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()
        self._restorer.close()
        self._watchdog.close()
        self._giving_way.close()
        super().close()
