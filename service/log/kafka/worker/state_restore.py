"""Restores the state of assigned partitions from the state topic, in steps, so that no partition waits for another.

The end of a state partition is fetched as read_uncommitted, and the partition is read to there as read_committed. That
waits for an open transaction of the previous owner. Reading to the last stable offset only could miss its last commit.
If the previous owner is dead, its transaction is aborted.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError

from service.errors import StreamError
from service.log.codec import parse_position, to_position_key
from service.log.kafka.admin import list_open_transactions
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_error
from service.log.kafka.clients import create_consumer
from service.log.protocol import PartitionAssignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka import KafkaConsumer
    from kafka.consumer.fetcher import ConsumerRecord

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

RESTORE_GRACE_S = 30.0  # after the transaction time-out
OFFSETS_TIMEOUT_MS = 1_000  # the longest time that a partition without a leader delays the others
RETRY_INTERVAL_S = 0.5
FENCE_INTERVAL_S = 1.0  # a worker that only lost the partition ends its transaction within this time
MAX_SILENCE_S = 3.0
MAX_POLL_RECORDS = 5_000


@dataclass(slots=True)
class RestoreJob:
    """A partition whose state is being read."""

    started_at: float
    state: dict[bytes, bytes] = field(default_factory=dict)
    end_offset: int | None = None  # none: to be fetched at `retry_at`
    source_start: int = 0
    source_end: int = 0
    retry_at: float = 0.0
    progress_at: float = 0.0  # when its last message was read
    fence_at: float = 0.0  # when to look for transactions of dead workers
    warned_at: float = 0.0
    warning: str = ""

    def note_progress(self, now: float) -> None:
        self.progress_at, self.fence_at = now, now + FENCE_INTERVAL_S


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    assignment: PartitionAssignment
    source_end: int


class StateRestorer:
    """Restores the requested partitions. One thread uses it."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        *,
        fence: Callable[[str, int], bool],
        restore_grace_s: float = RESTORE_GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._fence = fence
        self._warn_after_s = settings.transaction_timeout_ms / 1000 + restore_grace_s
        self._clock = clock
        self._jobs: dict[int, RestoreJob] = {}
        self._consumer: KafkaConsumer | None = None
        self._offset_consumer: KafkaConsumer | None = None

    def request(self, partitions: Iterable[int]) -> None:
        """Starts to restore the partitions, from the beginning if a restore is already running."""
        self._jobs |= {partition: RestoreJob(self._clock()) for partition in partitions}

    def cancel(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._jobs.pop(partition, None)

    @property
    def pending_partitions(self) -> frozenset[int]:
        return frozenset(self._jobs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why partitions wait longer than they should. Other threads may call it."""
        return tuple(job.warning for job in list(self._jobs.values()) if job.warning)

    def step(self, timeout: float) -> list[RestoredPartition]:
        """Continues with every partition, for about `timeout` seconds. Returns the partitions that are restored."""
        if not self._jobs:
            return []
        try:
            self._start_due_jobs()
            restored = self._read_state(timeout)
        except CLIENT_ERRORS as error:
            self._start_over(error)
            return []
        self._warn_about_slow_jobs()
        if not self._jobs:
            self.close()  # later the partitions have other leaders, or one of the brokers hangs
        return restored

    # -- offsets ---------------------------------------------------------------------------------------------------

    def _start_due_jobs(self) -> None:
        now = self._clock()
        due = [partition for partition, job in self._jobs.items() if job.end_offset is None and job.retry_at <= now]
        if not due:
            return
        try:
            self._start_jobs(due)
        except CLIENT_ERRORS:
            # The request fails for all if one partition has no leader: try each alone.
            for partition in due:
                try:
                    self._start_jobs([partition])
                except CLIENT_ERRORS as error:
                    self._jobs[partition].retry_at = self._clock() + RETRY_INTERVAL_S
                    self._close_offset_consumer()
                    logger.warning(
                        "partition %d: can't fetch its offsets, retrying: %s", partition, describe_error(error)
                    )

    def _start_jobs(self, partitions: list[int]) -> None:
        if self._offset_consumer is None:
            self._offset_consumer = self._create_consumer("read_uncommitted")
        if self._consumer is None:
            self._consumer = self._create_consumer("read_committed")
        state = {partition: TopicPartition(self._topics.state, partition) for partition in partitions}
        source = {partition: TopicPartition(self._topics.sentences, partition) for partition in partitions}
        both = [*state.values(), *source.values()]
        # First the beginning, then the end: a commit between the two requests is then inside the range.
        starts = self._offset_consumer.beginning_offsets(both, timeout_ms=OFFSETS_TIMEOUT_MS)
        ends = self._offset_consumer.end_offsets(both, timeout_ms=OFFSETS_TIMEOUT_MS)
        ranges = {
            partition: (
                starts[state[partition]],
                ends[state[partition]],
                starts[source[partition]],
                ends[source[partition]],
            )
            for partition in partitions
        }
        self._assign(self._consumer, extra=partitions)
        for partition, (state_start, state_end, source_start, source_end) in ranges.items():
            self._consumer.seek(state[partition], state_start)
            job = self._jobs[partition]
            job.state.clear()
            job.end_offset, job.source_start, job.source_end = state_end, source_start, source_end
            job.note_progress(self._clock())

    def _create_consumer(self, isolation: str) -> KafkaConsumer:
        return create_consumer(
            self._settings, isolation=isolation, request_timeout_ms=self._settings.attempt_timeout_ms
        )

    def _assign(self, consumer: KafkaConsumer, extra: Iterable[int] = ()) -> None:
        partitions = {partition for partition, job in self._jobs.items() if job.end_offset is not None} | set(extra)
        consumer.assign([TopicPartition(self._topics.state, partition) for partition in sorted(partitions)])

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_state(self, timeout: float) -> list[RestoredPartition]:
        consumer = self._consumer
        reading = [partition for partition, job in self._jobs.items() if job.end_offset is not None]
        if consumer is None or not reading:
            return []
        polled = consumer.poll(timeout_ms=int(timeout * 1000), max_records=MAX_POLL_RECORDS)
        for topic_partition, messages in polled.items():
            if topic_partition.partition in reading:
                job = self._jobs[topic_partition.partition]
                _apply_messages(messages, job.state)
                job.note_progress(self._clock())
        restored = []
        for partition in reading:
            position = consumer.position(TopicPartition(self._topics.state, partition), timeout_ms=0)
            end = self._jobs[partition].end_offset
            if position is not None and end is not None and position >= end:
                restored.append(self._finish_job(partition, self._jobs.pop(partition)))
        if restored:
            self._assign(consumer)
        self._unblock_jobs()
        return [partition for partition in restored if partition is not None]

    def _unblock_jobs(self) -> None:
        """Aborts the transactions of dead workers. Without an open transaction the client itself is stuck.

        One partition at a time: the transaction that blocks it often blocks the others too.
        """
        now = self._clock()
        waiting = ((number, job) for number, job in self._jobs.items() if job.end_offset is not None)
        partition, job = min(waiting, key=lambda each: each[1].fence_at, default=(0, None))
        if job is None or now < job.fence_at:
            return
        blocked = self._fence(self._topics.state, partition)
        job.fence_at = self._clock() + FENCE_INTERVAL_S
        silent_s = self._clock() - job.progress_at
        if not blocked and silent_s > MAX_SILENCE_S:
            raise KafkaTimeoutError(f"partition {partition}: no message of its state for {silent_s:.0f} s")

    def _finish_job(self, partition: int, job: RestoreJob) -> RestoredPartition | None:
        position = job.state.pop(to_position_key(partition), None)
        committed_offset = job.source_start if position is None else parse_position(position)
        if committed_offset > job.source_end:
            # The input topic is not the one that the state was built from. Any other offset would be a guess.
            self._jobs[partition] = job
            job.end_offset, job.retry_at = None, self._clock() + RETRY_INTERVAL_S
            self._warn(
                job,
                f"partition {partition}: the next offset in the state is {committed_offset}, but the input ends at"
                f" {job.source_end}: was {self._topics.sentences} created again? Use another prefix, or delete the state topic too",
            )
            return None
        next_offset = max(committed_offset, job.source_start)
        assignment = PartitionAssignment(partition, next_offset, job.state, lost_records=next_offset - committed_offset)
        return RestoredPartition(assignment, job.source_end)

    # -- errors ----------------------------------------------------------------------------------------------------

    def _warn_about_slow_jobs(self) -> None:
        for partition, job in self._jobs.items():
            waited_s = self._clock() - job.started_at
            if waited_s < self._warn_after_s or self._clock() - job.warned_at < RESTORE_GRACE_S:
                continue
            try:
                holders = list_open_transactions(self._settings, self._topics.state, partition)
            except StreamError as error:
                reason = str(error)
            else:
                reason = f"an open transaction of {', '.join(holders)}" if holders else "there is no open transaction"
            self._warn(job, f"partition {partition}: its state could not be read for {waited_s:.0f} s: {reason}")

    def _warn(self, job: RestoreJob, warning: str) -> None:
        if not job.warning:  # `warnings` shows how long it lasts
            logger.error("%s", warning)
        job.warning, job.warned_at = warning, self._clock()

    def _start_over(self, error: Exception) -> None:
        logger.warning("the restore starts again with new clients: %s", describe_error(error))
        self.close()
        for job in self._jobs.values():
            job.end_offset, job.retry_at = None, self._clock() + RETRY_INTERVAL_S
            job.state.clear()

    def _close_offset_consumer(self) -> None:
        """A new one asks another broker who leads the partitions."""
        _close_client(self._offset_consumer)
        self._offset_consumer = None

    def close(self) -> None:
        self._close_offset_consumer()
        _close_client(self._consumer)
        self._consumer = None


def _close_client(client: KafkaConsumer | None) -> None:
    if client is not None:
        with contextlib.suppress(*CLIENT_ERRORS):
            client.close(autocommit=False)


def _apply_messages(messages: Iterable[ConsumerRecord], state: dict[bytes, bytes]) -> None:
    """Keeps the newest value of each key, as compaction does."""
    for message in messages:
        if message.value is None:
            state.pop(message.key, None)
        elif message.key is not None:
            state[message.key] = message.value
