"""Reads a topic from its beginning and stays behind it, all partitions, only what is committed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.errors import StreamError
from service.log.kafka.clients import CLIENT_ERRORS, create_consumer, to_records
from service.log.kafka.library_fixes.patches import describe_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka import KafkaConsumer

    from service.log.protocol import Record
    from service.settings.kafka import KafkaSettings

MAX_POLL_RECORDS = 2_000
PING_TIMEOUT_MS = 3_000
POLL_TIMEOUT_MS = 50  # while there is something to wait for; behind a topic that was read, only what has come is taken


class KafkaFollower:
    """A `Follower` over one topic. One thread uses it. After an error it goes on where it was, with a new consumer."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._settings = settings
        self._topic = topic
        self._consumer: KafkaConsumer | None = None
        self._next_offsets: dict[TopicPartition, int] = {}
        self._remaining_ends: dict[TopicPartition, int] = {}
        try:
            self._remaining_ends = self._fetch_end_offsets()
        except BaseException:
            self.close()
            raise

    def _fetch_end_offsets(self) -> dict[TopicPartition, int]:
        """With what is about to be committed: a commit that was promised may be a moment away from being seen."""
        places = sorted(self._ensure_consumer().assignment())
        if not places:
            raise StreamError(
                f"the topic {self._topic} does not exist: run `labelwatch topics create`; or it does, and this user may not "
                "see it: grant READ and DESCRIBE"
            )
        looker = create_consumer(self._settings, isolation="read_uncommitted")
        try:
            return dict(looker.end_offsets(places))
        finally:
            looker.close(autocommit=False)

    def _ensure_consumer(self) -> KafkaConsumer:
        """Partitions may be added to a topic while it is followed; those that are known stay where they are."""
        if self._consumer is None:
            self._consumer = create_consumer(self._settings)
        consumer = self._consumer
        known = consumer.assignment()
        new = {TopicPartition(self._topic, number) for number in consumer.partitions_for_topic(self._topic)} - known
        if new:
            consumer.assign(sorted(known | new))
        for place in new:
            if place in self._next_offsets:
                consumer.seek(place, self._next_offsets[place])
            else:
                consumer.seek_to_beginning(place)
        return consumer

    def poll(self) -> Sequence[Record]:
        try:
            consumer = self._ensure_consumer()
            found = consumer.poll(
                timeout_ms=POLL_TIMEOUT_MS if self._remaining_ends else 0, max_records=MAX_POLL_RECORDS
            )
            self._remaining_ends = {
                place: end for place, end in self._remaining_ends.items() if not _has_reached(consumer, place, end)
            }
        except CLIENT_ERRORS as error:
            self.close()
            raise StreamError(f"{self._topic} can't be followed: {describe_error(error)}") from error
        self._next_offsets |= {place: messages[-1].offset + 1 for place, messages in found.items()}
        return [record for messages in found.values() for record in to_records(messages)]

    def ping(self) -> None:
        """A consumer that has lost its broker goes on waiting without a word: ask for something it must answer."""
        try:
            consumer = self._ensure_consumer()
            consumer.end_offsets(sorted(consumer.assignment()), timeout_ms=PING_TIMEOUT_MS)
        except CLIENT_ERRORS as error:
            raise StreamError(
                f"Kafka at {self._settings.bootstrap_servers} does not answer: {describe_error(error)}"
            ) from error

    @property
    def caught_up(self) -> bool:
        return not self._remaining_ends

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(*CLIENT_ERRORS):
                consumer.close(autocommit=False)


def _has_reached(consumer: KafkaConsumer, place: TopicPartition, end: int) -> bool:
    if end == 0:
        return True
    position = consumer.position(place, timeout_ms=0)
    return position is not None and int(position) >= end


def follow(settings: KafkaSettings, topic: str) -> KafkaFollower:
    try:
        return KafkaFollower(settings, topic)
    except CLIENT_ERRORS as error:
        raise StreamError(f"Kafka at {settings.bootstrap_servers}: {describe_error(error)}") from error
