"""The log on Kafka, as the API and the commands open it: append without a worker, follow topics."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_error
from service.log.kafka.clients import PRODUCER_CLOSE_TIMEOUT_S, create_producer, send
from service.log.kafka.compare_and_set import append_if_unchanged
from service.log.kafka.follower import KafkaFollower, follow
from service.log.kafka.library_fixes.transactions.disposal import dispose
from service.log.kafka.read_record import read_record
from service.log.protocol import NothingAppended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka import KafkaProducer
    from kafka.producer.future import FutureRecordMetadata

    from service.log.protocol import Output, Record, RecordPosition
    from service.settings.kafka import KafkaSettings


class KafkaLog:
    """A `Log` over Kafka. All threads share one producer, created on first use and again after an error."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._append_producer: KafkaProducer | None = None
        self._append_mutex = threading.Lock()

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        producer: KafkaProducer | None = None
        futures: list[FutureRecordMetadata] = []
        try:
            producer = self._ensure_append_producer()
            for output in outputs:
                futures.append(send(producer, output))  # noqa: PERF401 - after an error its length says whether any was sent
            producer.flush(timeout=timeout)
            for future in futures:
                future.get(timeout=0)
        except CLIENT_ERRORS as error:
            with self._append_mutex:
                if producer is not None and self._append_producer is producer:
                    self._append_producer = None
                    dispose(producer)
            error_class = StreamError if futures else NothingAppended
            raise error_class(f"Kafka did not accept the messages: {describe_error(error)}") from error

    def _ensure_append_producer(self) -> KafkaProducer:
        with self._append_mutex:
            if self._append_producer is None:
                self._append_producer = create_producer(self._settings)
            return self._append_producer

    def append_if_unchanged(
        self, output: Output, expected: RecordPosition | None, *, also: Sequence[Output] = (), timeout: float = 30.0
    ) -> None:
        append_if_unchanged(self._settings, output, expected, also=also, timeout=timeout)

    def follow(self, topic: str) -> KafkaFollower:
        return follow(self._settings, topic)

    def read_record(self, topic: str, partition: int, offset: int) -> Record | None:
        return read_record(self._settings, topic, partition, offset)

    def close(self) -> None:
        with self._append_mutex, contextlib.suppress(*CLIENT_ERRORS):
            if self._append_producer is not None:
                self._append_producer.close(timeout=PRODUCER_CLOSE_TIMEOUT_S)
            self._append_producer = None
