"""Closes a producer at once, whatever it still holds.

Bug: `KafkaProducer.close(timeout=0)` flushes first. With unsent messages the flush times out and raises, and the sender
thread keeps running.
Symptom: each failed transaction leaves a thread that continues to send.
Remove it when: `close(timeout=0)` drops unsent messages, as its counterpart in Java does.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from service.log.kafka.client_errors import CLIENT_ERRORS

if TYPE_CHECKING:
    from kafka import KafkaProducer


def dispose(producer: KafkaProducer) -> None:
    try:
        producer.close(timeout=0)
    except CLIENT_ERRORS:
        producer._sender.force_close()  # noqa: SLF001 - close() raises before it gets there
        with contextlib.suppress(*CLIENT_ERRORS):
            producer.close(timeout=1)
