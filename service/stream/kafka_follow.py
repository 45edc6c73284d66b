"""Reads a topic from its beginning and stays behind it, all partitions, only what is committed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kafka import TopicPartition

from service.errors import StreamError
from service.stream.kafka_client import CLIENT_ERRORS, reader, records_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.stream.base import Record
    from service.stream.kafka_settings import KafkaSettings

CHUNK = 2_000
WAIT_MS = 50  # while there is something to wait for; behind a topic that was read, only what has come is taken


class KafkaFollower:
    """A `Follower` over one topic. One thread uses it."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        self._consumer = reader(settings)
        self._ends: dict[TopicPartition, int] = {}
        try:
            self._begin(settings)
        except BaseException:
            self.close()
            raise

    def _begin(self, settings: KafkaSettings) -> None:
        self._grow()
        places = sorted(self._consumer.assignment())
        if not places:
            raise StreamError(f"the topic {self._topic} does not exist: run `labelwatch topics create`")
        # The end with what is about to be committed: a commit that was promised may be a moment away from being seen.
        looker = reader(settings, isolation="read_uncommitted")
        try:
            self._ends = looker.end_offsets(places)
        finally:
            looker.close(autocommit=False)

    def _grow(self) -> None:
        """Partitions may be added to a topic while it is followed; those that are known stay where they are."""
        numbers = self._consumer.partitions_for_topic(self._topic)
        known = self._consumer.assignment()
        new = {TopicPartition(self._topic, number) for number in numbers} - known
        if new:
            self._consumer.assign(sorted(known | new))
            self._consumer.seek_to_beginning(*sorted(new))

    def poll(self) -> Sequence[Record]:
        try:
            self._grow()
            found = self._consumer.poll(timeout_ms=WAIT_MS if self._ends else 0, max_records=CHUNK)
            self._ends = {place: end for place, end in self._ends.items() if not self._passed(place, end)}
        except CLIENT_ERRORS as error:
            raise StreamError(f"{self._topic} can't be followed: {type(error).__name__}: {error}") from error
        return [record for messages in found.values() for record in records_of(messages)]

    def _passed(self, place: TopicPartition, end: int) -> bool:
        if end == 0:
            return True
        position = self._consumer.position(place, timeout_ms=0)
        return position is not None and position >= end

    @property
    def caught_up(self) -> bool:
        return not self._ends

    def close(self) -> None:
        with contextlib.suppress(*CLIENT_ERRORS):
            self._consumer.close(autocommit=False)


def follow(settings: KafkaSettings, topic: str) -> KafkaFollower:
    try:
        return KafkaFollower(settings, topic)
    except CLIENT_ERRORS as error:
        raise StreamError(f"Kafka at {settings.bootstrap_servers}: {type(error).__name__}: {error}") from error
