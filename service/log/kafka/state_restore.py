"""Reads back the state of partitions that came to us, a step at a time, so that none waits for another.

The end of a state partition is taken as read_uncommitted, then it is read as read_committed up to there. That waits
out a previous owner's open transaction: reading only to the last stable offset could miss its last commit.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.errors import StreamError
from service.log.codec import parse_position, to_position_key
from service.log.kafka.admin import list_open_transactions
from service.log.kafka.clients import CLIENT_ERRORS, create_consumer
from service.log.protocol import PartitionAssignment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka import KafkaConsumer
    from kafka.consumer.fetcher import ConsumerRecord

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

RESTORE_GRACE_S = 30.0  # past the transaction time-out
OFFSETS_TIMEOUT_MS = 1_000  # a partition without a leader must not hold up the others for longer
RETRY_INTERVAL_S = 2.0
MAX_POLL_RECORDS = 5_000


@dataclass(slots=True)
class RestoreJob:
    """A partition on its way: from where to where its state is read, and what was found so far."""

    started_at: float
    state: dict[bytes, bytes] = field(default_factory=dict)
    end_offset: int | None = None  # none: not asked yet, or to be asked again at `retry_at`
    source_start: int = 0
    source_end: int = 0
    retry_at: float = 0.0
    warned_at: float = 0.0
    warning: str = ""


@dataclass(frozen=True, slots=True)
class RestoredPartition:
    assignment: PartitionAssignment
    source_end: int


class StateRestorer:
    """Restores the partitions it is asked for. One thread uses it."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        *,
        restore_grace_s: float = RESTORE_GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._warn_after_s = settings.transaction_timeout_ms / 1000 + restore_grace_s
        self._clock = clock
        self._jobs: dict[int, RestoreJob] = {}
        self._consumer: KafkaConsumer | None = None
        self._offset_consumer: KafkaConsumer | None = None

    def request(self, partitions: Iterable[int]) -> None:
        """From the beginning, also where a restore of the partition is under way."""
        self._jobs |= {partition: RestoreJob(self._clock()) for partition in partitions}

    def cancel(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._jobs.pop(partition, None)

    @property
    def pending_partitions(self) -> frozenset[int]:
        return frozenset(self._jobs)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What keeps partitions waiting for longer than it should; may be asked by other threads."""
        return tuple(one.warning for one in list(self._jobs.values()) if one.warning)

    def step(self, timeout: float) -> list[RestoredPartition]:
        """Goes on with every partition, waiting for news no longer than `timeout`; gives those that are done."""
        if not self._jobs:
            return []
        try:
            self._start_due_jobs()
            done = self._read_state(timeout)
        except CLIENT_ERRORS as error:
            self._start_over(error)
            return []
        self._warn_about_slow_jobs()
        return done

    # -- offsets ---------------------------------------------------------------------------------------------------

    def _start_due_jobs(self) -> None:
        now = self._clock()
        due = [partition for partition, one in self._jobs.items() if one.end_offset is None and one.retry_at <= now]
        if not due:
            return
        try:
            self._start_jobs(due)
        except CLIENT_ERRORS:
            # One without a leader spoils the answer for all: ask for each alone.
            for partition in due:
                try:
                    self._start_jobs([partition])
                except CLIENT_ERRORS as error:
                    one = self._jobs[partition]
                    one.retry_at = self._clock() + RETRY_INTERVAL_S
                    logger.warning("partition %d: its offsets can't be had, trying again: %r", partition, error)

    def _start_jobs(self, partitions: list[int]) -> None:
        if self._offset_consumer is None:
            self._offset_consumer = create_consumer(self._settings, isolation="read_uncommitted")
        if self._consumer is None:
            self._consumer = create_consumer(self._settings)
        state, source = self._topics.state, self._topics.sentences
        places = [TopicPartition(topic, partition) for partition in partitions for topic in (state, source)]
        # The beginning of the state first, the end last: what is committed in between is then inside.
        starts = self._offset_consumer.beginning_offsets(places, timeout_ms=OFFSETS_TIMEOUT_MS)
        ends = self._offset_consumer.end_offsets(places, timeout_ms=OFFSETS_TIMEOUT_MS)
        found = {
            partition: [
                offsets[TopicPartition(topic, partition)] for offsets in (starts, ends) for topic in (state, source)
            ]
            for partition in partitions
        }
        self._assign(self._consumer, extra=partitions)
        for partition, (state_start, source_start, state_end, source_end) in found.items():
            self._consumer.seek(TopicPartition(state, partition), state_start)
            one = self._jobs[partition]
            one.state.clear()
            one.end_offset, one.source_start, one.source_end = state_end, source_start, source_end

    def _assign(self, consumer: KafkaConsumer, extra: Iterable[int] = ()) -> None:
        reading = {partition for partition, one in self._jobs.items() if one.end_offset is not None} | set(extra)
        consumer.assign([TopicPartition(self._topics.state, partition) for partition in sorted(reading)])

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_state(self, timeout: float) -> list[RestoredPartition]:
        consumer = self._consumer
        reading = [partition for partition, one in self._jobs.items() if one.end_offset is not None]
        if consumer is None or not reading:
            return []
        for place, messages in consumer.poll(timeout_ms=int(timeout * 1000), max_records=MAX_POLL_RECORDS).items():
            if place.partition in reading:
                _apply_messages(messages, self._jobs[place.partition].state)
        restored = []
        for partition in reading:
            position = consumer.position(TopicPartition(self._topics.state, partition), timeout_ms=0)
            end = self._jobs[partition].end_offset
            if position is not None and end is not None and position >= end:
                restored.append(self._finish_job(partition, self._jobs.pop(partition)))
        if restored:
            self._assign(consumer)
        return [one for one in restored if one is not None]

    def _finish_job(self, partition: int, job: RestoreJob) -> RestoredPartition | None:
        written = job.state.pop(to_position_key(partition), None)
        wanted = job.source_start if written is None else parse_position(written)
        if wanted > job.source_end:
            # Not an offset that can be read, and not one that may be guessed: the input is not what was read before.
            self._jobs[partition] = job
            job.end_offset, job.retry_at = None, self._clock() + RETRY_INTERVAL_S
            self._warn(
                job,
                f"partition {partition}: the state says that offset {wanted} comes next, but the input ends at"
                f" {job.source_end}: was {self._topics.sentences} made anew? Use another prefix, or delete the state topic too",
            )
            return None
        next_offset = max(wanted, job.source_start)
        gained = PartitionAssignment(partition, next_offset, job.state, lost_records=next_offset - wanted)
        return RestoredPartition(gained, job.source_end)

    # -- when it doesn't go well -----------------------------------------------------------------------------------

    def _warn_about_slow_jobs(self) -> None:
        for partition, one in self._jobs.items():
            waited = self._clock() - one.started_at
            if waited < self._warn_after_s or self._clock() - one.warned_at < RESTORE_GRACE_S:
                continue
            try:
                holders = list_open_transactions(self._settings, self._topics.state, partition)
            except StreamError as error:
                why = str(error)
            else:
                why = f"an open transaction of {', '.join(holders)}" if holders else "no open transaction is known"
            self._warn(one, f"partition {partition}: its state could not be read for {waited:.0f} s: {why}")

    def _warn(self, job: RestoreJob, warning: str) -> None:
        if not job.warning:  # how long it lasts is told by `troubles`
            logger.error("%s", warning)
        job.warning, job.warned_at = warning, self._clock()

    def _start_over(self, error: Exception) -> None:
        logger.warning("restoring starts over with new clients: %r", error)
        self.close()
        for one in self._jobs.values():
            one.end_offset, one.retry_at = None, self._clock() + RETRY_INTERVAL_S
            one.state.clear()

    def close(self) -> None:
        for client in (self._consumer, self._offset_consumer):
            if client is not None:
                with contextlib.suppress(*CLIENT_ERRORS):
                    client.close(autocommit=False)
        self._consumer = self._offset_consumer = None


def _apply_messages(messages: Iterable[ConsumerRecord], state: dict[bytes, bytes]) -> None:
    """The newest value of each key, as compaction would leave it."""
    for message in messages:
        if message.value is None:
            state.pop(message.key, None)
        elif message.key is not None:
            state[message.key] = message.value
