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
from service.log.codec import position_key, read_position
from service.log.kafka.admin import open_transactions
from service.log.kafka.clients import CLIENT_ERRORS, reader
from service.log.protocol import Gained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka import KafkaConsumer
    from kafka.consumer.fetcher import ConsumerRecord

    from service.log.kafka.settings import KafkaSettings
    from service.log.topics import Topics

log = logging.getLogger(__name__)

PATIENCE = 30.0  # past the transaction time-out
OFFSETS_TIMEOUT_MS = 1_000  # a partition without a leader must not hold up the others for longer
RETRY_AFTER = 2.0
CHUNK = 5_000


@dataclass(slots=True)
class Pending:
    """A partition on its way: from where to where its state is read, and what was found so far."""

    since: float
    state: dict[bytes, bytes] = field(default_factory=dict)
    end: int | None = None  # none: not asked yet, or to be asked again at `try_at`
    source_start: int = 0
    source_end: int = 0
    try_at: float = 0.0
    told_at: float = 0.0
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Restored:
    gained: Gained
    source_end: int


class Restorer:
    """Restores the partitions it is asked for. One thread uses it."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Topics,
        *,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._limit = settings.transaction_timeout_ms / 1000 + patience
        self._clock = clock
        self._pending: dict[int, Pending] = {}
        self._reader: KafkaConsumer | None = None
        self._looker: KafkaConsumer | None = None

    def want(self, partitions: Iterable[int]) -> None:
        """From the beginning, also where a restore of the partition is under way."""
        self._pending |= {partition: Pending(self._clock()) for partition in partitions}

    def forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._pending.pop(partition, None)

    @property
    def partitions(self) -> frozenset[int]:
        return frozenset(self._pending)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What keeps partitions waiting for longer than it should; may be asked by other threads."""
        return tuple(one.trouble for one in list(self._pending.values()) if one.trouble)

    def step(self, timeout: float) -> list[Restored]:
        """Goes on with every partition, waiting for news no longer than `timeout`; gives those that are done."""
        if not self._pending:
            return []
        try:
            self._begin_those_due()
            done = self._read(timeout)
        except CLIENT_ERRORS as error:
            self._start_over(error)
            return []
        self._watch_the_slow()
        return done

    # -- offsets ---------------------------------------------------------------------------------------------------

    def _begin_those_due(self) -> None:
        now = self._clock()
        due = [partition for partition, one in self._pending.items() if one.end is None and one.try_at <= now]
        if not due:
            return
        try:
            self._begin(due)
        except CLIENT_ERRORS:
            # One without a leader spoils the answer for all: ask for each alone.
            for partition in due:
                try:
                    self._begin([partition])
                except CLIENT_ERRORS as error:
                    one = self._pending[partition]
                    one.try_at = self._clock() + RETRY_AFTER
                    log.warning("partition %d: its offsets can't be had, trying again: %r", partition, error)

    def _begin(self, partitions: list[int]) -> None:
        if self._looker is None:
            self._looker = reader(self._settings, isolation="read_uncommitted")
        if self._reader is None:
            self._reader = reader(self._settings)
        state, source = self._topics.state, self._topics.sentences
        places = [TopicPartition(topic, partition) for partition in partitions for topic in (state, source)]
        # The beginning of the state first, the end last: what is committed in between is then inside.
        starts = self._looker.beginning_offsets(places, timeout_ms=OFFSETS_TIMEOUT_MS)
        ends = self._looker.end_offsets(places, timeout_ms=OFFSETS_TIMEOUT_MS)
        found = {
            partition: [
                offsets[TopicPartition(topic, partition)] for offsets in (starts, ends) for topic in (state, source)
            ]
            for partition in partitions
        }
        self._assign(self._reader, extra=partitions)
        for partition, (state_start, source_start, state_end, source_end) in found.items():
            self._reader.seek(TopicPartition(state, partition), state_start)
            one = self._pending[partition]
            one.state.clear()
            one.end, one.source_start, one.source_end = state_end, source_start, source_end

    def _assign(self, consumer: KafkaConsumer, extra: Iterable[int] = ()) -> None:
        reading = {partition for partition, one in self._pending.items() if one.end is not None} | set(extra)
        consumer.assign([TopicPartition(self._topics.state, partition) for partition in sorted(reading)])

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read(self, timeout: float) -> list[Restored]:
        consumer = self._reader
        reading = [partition for partition, one in self._pending.items() if one.end is not None]
        if consumer is None or not reading:
            return []
        for place, messages in consumer.poll(timeout_ms=int(timeout * 1000), max_records=CHUNK).items():
            if place.partition in reading:
                _take(messages, self._pending[place.partition].state)
        restored = []
        for partition in reading:
            position = consumer.position(TopicPartition(self._topics.state, partition), timeout_ms=0)
            end = self._pending[partition].end
            if position is not None and end is not None and position >= end:
                restored.append(self._restored(partition, self._pending.pop(partition)))
        if restored:
            self._assign(consumer)
        return [one for one in restored if one is not None]

    def _restored(self, partition: int, one: Pending) -> Restored | None:
        written = one.state.pop(position_key(partition), None)
        wanted = one.source_start if written is None else read_position(written)
        if wanted > one.source_end:
            # Not an offset that can be read, and not one that may be guessed: the input is not what was read before.
            self._pending[partition] = one
            one.end, one.try_at = None, self._clock() + RETRY_AFTER
            self._tell(
                one,
                f"partition {partition}: the state says that offset {wanted} comes next, but the input ends at"
                f" {one.source_end}: was {self._topics.sentences} made anew? Use another prefix, or delete the state topic too",
            )
            return None
        next_offset = max(wanted, one.source_start)
        gained = Gained(partition, next_offset, one.state, lost_records=next_offset - wanted)
        return Restored(gained, one.source_end)

    # -- when it doesn't go well -----------------------------------------------------------------------------------

    def _watch_the_slow(self) -> None:
        for partition, one in self._pending.items():
            waited = self._clock() - one.since
            if waited < self._limit or self._clock() - one.told_at < PATIENCE:
                continue
            try:
                holders = open_transactions(self._settings, self._topics.state, partition)
            except StreamError as error:
                why = str(error)
            else:
                why = f"an open transaction of {', '.join(holders)}" if holders else "no open transaction is known"
            self._tell(one, f"partition {partition}: its state could not be read for {waited:.0f} s: {why}")

    def _tell(self, one: Pending, trouble: str) -> None:
        if not one.trouble:  # how long it lasts is told by `troubles`
            log.error("%s", trouble)
        one.trouble, one.told_at = trouble, self._clock()

    def _start_over(self, error: Exception) -> None:
        log.warning("restoring starts over with new clients: %r", error)
        self.close()
        for one in self._pending.values():
            one.end, one.try_at = None, self._clock() + RETRY_AFTER
            one.state.clear()

    def close(self) -> None:
        for client in (self._reader, self._looker):
            if client is not None:
                with contextlib.suppress(*CLIENT_ERRORS):
                    client.close(autocommit=False)
        self._reader = self._looker = None


def _take(messages: Iterable[ConsumerRecord], state: dict[bytes, bytes]) -> None:
    """The newest value of each key, as compaction would leave it."""
    for message in messages:
        if message.value is None:
            state.pop(message.key, None)
        elif message.key is not None:
            state[message.key] = message.value
