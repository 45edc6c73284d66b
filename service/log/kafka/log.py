"""Messages appended without a transaction: by one producer that all threads share."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.log.kafka.clients import CLIENT_ERRORS, create_producer, dispose, send
from service.log.kafka.library_fixes.patches import describe_error
from service.log.kafka.transactional_producer import CLOSE_TIMEOUT_S
from service.log.protocol import NothingAppended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka import KafkaProducer
    from kafka.producer.future import FutureRecordMetadata

    from service.log.protocol import Output
    from service.settings.kafka import KafkaSettings


class SharedProducer:
    """Makes its producer when it is first needed, and a new one after an error."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._producer: KafkaProducer | None = None
        self._mutex = threading.Lock()

    def append(self, outputs: Sequence[Output], *, timeout: float) -> None:
        producer: KafkaProducer | None = None
        futures: list[FutureRecordMetadata] = []
        try:
            producer = self._ensure_producer()
            for output in outputs:
                futures.append(send(producer, output))  # noqa: PERF401 - so that it is known whether any was taken
            producer.flush(timeout=timeout)
            for future in futures:
                future.get(timeout=0)
        except CLIENT_ERRORS as error:
            with self._mutex:
                if producer is not None and self._producer is producer:
                    self._producer = None
                    dispose(producer)
            kind = StreamError if futures else NothingAppended
            raise kind(f"Kafka did not take the messages: {describe_error(error)}") from error

    def _ensure_producer(self) -> KafkaProducer:
        with self._mutex:
            if self._producer is None:
                self._producer = create_producer(self._settings)
            return self._producer

    def close(self) -> None:
        with self._mutex, contextlib.suppress(*CLIENT_ERRORS):
            if self._producer is not None:
                self._producer.close(timeout=CLOSE_TIMEOUT_S)
            self._producer = None
