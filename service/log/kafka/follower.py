"""Follows a topic on Kafka: all partitions, committed records only."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.errors import StreamError
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_error, describe_failure, describe_missing_topic
from service.log.kafka.clients import create_consumer, to_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka import KafkaConsumer

    from service.log.protocol import Record
    from service.settings.kafka import KafkaSettings

MAX_POLL_RECORDS = 2_000
PING_TIMEOUT_MS = 3_000
RENEW_TIMEOUT_MS = 2_000  # to connect, and as long for the answer: nothing is read for up to twice as long
STABLE_ENDS_INTERVAL_S = 0.3
# Asking a broker that does not answer takes PING_TIMEOUT_MS, in which nothing is read. A worker that starts asks again soon: it
# can't join its group before. One that follows goes on reading.
FAILED_ENDS_INTERVAL_S = 1.0
FAILED_RENEWAL_INTERVAL_S = 10.0
TRANSACTION_GRACE_S = 0.5  # a live writer ends its transaction within this time
POLL_TIMEOUT_MS = 50  # until the follower has caught up; from then on a poll returns what has been fetched


class KafkaFollower:
    """A `Follower` over one topic, or one of its partitions. One thread uses it.

    After an error it continues with a new consumer.
    """

    def __init__(self, settings: KafkaSettings, topic: str, *, partition: int | None = None) -> None:
        self._settings = settings
        self._topic = topic
        self._partition = partition
        self._consumer: KafkaConsumer | None = None
        self._end_consumer: KafkaConsumer | None = None  # for the ends as read_uncommitted sees them
        self._next_offsets: dict[TopicPartition, int] = {}
        self._remaining_ends: dict[TopicPartition, int] = {}
        self._waiting_since: float | None = None  # for transactions only
        self._stable_ends_due = 0.0
        self._is_end_renewed = False
        try:
            self._remaining_ends = self._fetch_end_offsets(settings.request_timeout_ms)
        except BaseException:
            self.close()
            raise
        self._close_end_consumer()  # few followers renew their end

    def _fetch_end_offsets(self, timeout_ms: int) -> dict[TopicPartition, int]:
        """The ends as read_uncommitted sees them: a commit that was acknowledged may not be visible yet."""
        partitions = sorted(self._ensure_consumer().assignment())
        if not partitions:
            raise StreamError(describe_missing_topic(self._topic))
        if self._end_consumer is None:
            self._end_consumer = create_consumer(
                self._settings, isolation="read_uncommitted", bootstrap_timeout_ms=timeout_ms
            )
        return dict(self._end_consumer.end_offsets(partitions, timeout_ms=timeout_ms))

    def _ensure_consumer(self) -> KafkaConsumer:
        """Assigns partitions that were added to the topic, without moving the others."""
        if self._consumer is None:
            self._consumer = create_consumer(self._settings)
        consumer = self._consumer
        known = consumer.assignment()
        numbers = consumer.partitions_for_topic(self._topic)
        if self._partition is not None:
            numbers = numbers & {self._partition}
        new = {TopicPartition(self._topic, number) for number in numbers} - known
        if new:
            consumer.assign(sorted(known | new))
        for partition in new:
            if partition in self._next_offsets:
                consumer.seek(partition, self._next_offsets[partition])
            else:
                consumer.seek_to_beginning(partition)
        return consumer

    def poll(self) -> Sequence[Record]:
        try:
            consumer = self._ensure_consumer()
            polled = consumer.poll(
                timeout_ms=POLL_TIMEOUT_MS if self._remaining_ends else 0, max_records=MAX_POLL_RECORDS
            )
            self._remaining_ends = {
                partition: end
                for partition, end in self._remaining_ends.items()
                if not _has_reached(consumer, partition, end)
            }
            self._update_waiting(consumer)
        except CLIENT_ERRORS as error:
            self.close()
            raise StreamError(f"{self._topic} can't be followed: {describe_error(error)}") from error
        self._next_offsets |= {partition: messages[-1].offset + 1 for partition, messages in polled.items()}
        return [record for messages in polled.values() for record in to_records(messages)]

    def _update_waiting(self, consumer: KafkaConsumer) -> None:
        """Notes since when the follower is at the last stable offset of every partition."""
        now = time.monotonic()
        if not self._remaining_ends:
            self._waiting_since = None
        elif now >= self._stable_ends_due:
            at_end = False
            interval = FAILED_RENEWAL_INTERVAL_S if self._is_end_renewed else FAILED_ENDS_INTERVAL_S
            # A partition without a leader has no end. The poll does not fail for it: its records count as read already.
            with contextlib.suppress(*CLIENT_ERRORS):
                ends = consumer.end_offsets(sorted(self._remaining_ends), timeout_ms=PING_TIMEOUT_MS)
                at_end = all(_has_reached(consumer, partition, end) for partition, end in ends.items())
                interval = STABLE_ENDS_INTERVAL_S
            self._stable_ends_due = time.monotonic() + interval
            self._waiting_since = (self._waiting_since or now) if at_end else None

    @property
    def waits_for_transaction(self) -> bool:
        return self._waiting_since is not None and time.monotonic() - self._waiting_since >= TRANSACTION_GRACE_S

    def ping(self) -> None:
        """Asks for end offsets: a poll without a broker returns nothing and raises no error."""
        try:
            consumer = self._ensure_consumer()
            consumer.end_offsets(sorted(consumer.assignment()), timeout_ms=PING_TIMEOUT_MS)
        except CLIENT_ERRORS as error:
            raise StreamError(describe_failure(self._settings.bootstrap_servers, error)) from error

    @property
    def caught_up(self) -> bool:
        return not self._remaining_ends

    def renew_end(self) -> None:
        """The consumer that it asks with is kept. If one partition has no leader, it fails, and polling goes on."""
        try:
            self._remaining_ends = self._fetch_end_offsets(RENEW_TIMEOUT_MS)
            self._is_end_renewed = True
        except CLIENT_ERRORS as error:
            self._close_end_consumer()  # a new one asks another broker who leads the partitions
            raise StreamError(f"the end of {self._topic} can't be fetched: {describe_error(error)}") from error

    def _close_end_consumer(self) -> None:
        consumer, self._end_consumer = self._end_consumer, None
        _close_consumer(consumer)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        _close_consumer(consumer)
        self._close_end_consumer()


def _close_consumer(consumer: KafkaConsumer | None) -> None:
    if consumer is not None:
        with contextlib.suppress(*CLIENT_ERRORS):
            consumer.close(autocommit=False)


def _has_reached(consumer: KafkaConsumer, partition: TopicPartition, end: int) -> bool:
    if end == 0:
        return True
    position = consumer.position(partition, timeout_ms=0)
    return position is not None and int(position) >= end


def follow(settings: KafkaSettings, topic: str, *, partition: int | None = None) -> KafkaFollower:
    try:
        return KafkaFollower(settings, topic, partition=partition)
    except CLIENT_ERRORS as error:
        raise StreamError(describe_failure(settings.bootstrap_servers, error)) from error
