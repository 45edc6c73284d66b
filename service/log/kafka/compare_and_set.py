"""Writes a key of a compacted topic only if no other writer has changed it.

All writers of a topic share one transactional id, which serves as a lock. A writer that starts fences every earlier
writer. It then reads the topic to its end, and its commit succeeds only if no other writer has started since. So no
record can appear between its read and its write. A fenced writer starts again and sees the record of the other one.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from typing import TYPE_CHECKING

from kafka.errors import KafkaTimeoutError

from service.errors import StreamError
from service.log.kafka.client_errors import CLIENT_ERRORS, WRITER_FENCED_ERRORS, describe_error, is_caused_by
from service.log.kafka.clients import create_producer, send
from service.log.kafka.follower import follow
from service.log.kafka.library_fixes.transactions.disposal import dispose
from service.log.kafka.library_fixes.transactions.transaction_deadline import TransactionDeadline
from service.log.protocol import VersionConflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka import KafkaProducer
    from kafka.producer.future import FutureRecordMetadata

    from service.log.protocol import Output, Record, RecordPosition
    from service.settings.kafka import KafkaSettings

MAX_TRANSACTION_MS = 10_000  # readers wait for an open transaction, also for one whose process has died
MAX_BACKOFF_S = 0.5


def append_if_unchanged(
    settings: KafkaSettings,
    output: Output,
    expected: RecordPosition | None,
    *,
    also: Sequence[Output] = (),
    timeout: float,
) -> None:
    """Implements `Log.append_if_unchanged`."""
    deadline = time.monotonic() + timeout
    while not _try_append(settings, output, expected, also, deadline):
        # A random pause: two writers that retry at the same moment would fence each other again.
        time.sleep(random.uniform(0, MAX_BACKOFF_S))
        if time.monotonic() >= deadline:
            raise StreamError(f"other writers change {output.topic} all the time: try again later")


def _try_append(
    settings: KafkaSettings,
    output: Output,
    expected: RecordPosition | None,
    also: Sequence[Output],
    deadline: float,
) -> bool:
    """Returns False if another writer has fenced this one."""
    transaction_ms = min(settings.transaction_timeout_ms, MAX_TRANSACTION_MS)
    delivery_ms = min(settings.delivery_timeout_ms, transaction_ms - 500)
    writer_settings = settings.model_copy(
        update={"transaction_timeout_ms": transaction_ms, "delivery_timeout_ms": delivery_ms}
    )
    producer: KafkaProducer | None = None
    futures: list[FutureRecordMetadata] = []
    try:
        producer = create_producer(writer_settings, transactional_id=f"{output.topic}+writer")
        producer.init_transactions()
        last = _find_last_record(settings, output, deadline)
        if last is not None and last.position != expected:
            if (last.value, last.headers) == (output.value, output.headers):
                return True  # an earlier attempt has written it, and its acknowledgement was lost
            raise VersionConflict(output)
        transaction = TransactionDeadline(min(deadline - time.monotonic(), transaction_ms / 1000))
        producer.begin_transaction()
        for each in (output, *also):
            futures.append(send(producer, each))  # noqa: PERF401 - after an error it says which were sent
        producer.flush(timeout=min(transaction.remaining_s, delivery_ms / 1000))
        for future in futures:
            future.get(timeout=0)
        if not transaction.remaining_s:
            raise KafkaTimeoutError("no time is left to commit it")
        _commit(producer, transaction, output.topic)
    except CLIENT_ERRORS as error:
        if is_caused_by(error, WRITER_FENCED_ERRORS, futures):
            return False
        raise StreamError(f"Kafka did not accept the message: {describe_error(error)}") from error
    finally:
        if producer is not None:
            dispose(producer)
    return True


def _commit(producer: KafkaProducer, transaction: TransactionDeadline, topic: str) -> None:
    """The client sends the request again as long as no coordinator answers it: only the deadline ends that."""
    try:
        transaction.commit(producer)
    except KafkaTimeoutError as error:
        raise StreamError(
            f"Kafka did not confirm the change of {topic} in time, and may have made it or not: look at it when Kafka answers"
            " again, and repeat the change if it is missing"
        ) from error


def _find_last_record(settings: KafkaSettings, output: Output, deadline: float) -> Record | None:
    """Returns the last record of the output's key that the topic holds now."""
    last: Record | None = None
    with closing(follow(settings, output.topic)) as follower:
        while not follower.caught_up:
            for record in follower.poll():
                if record.key == output.key:
                    last = record
            if time.monotonic() >= deadline:
                raise StreamError(f"{output.topic} could not be read to its end in time: try again later")
    return last
