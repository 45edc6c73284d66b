"""Changing a key of a compacted topic only where nobody else has changed it meanwhile.

All who do so share one transactional id, which is what Kafka has for a lock: who begins fences off whoever began
before, then reads the topic to its end, and can commit only if nobody has begun since. So between what was read and
what is written there is nothing. Who was fenced off begins again, and then sees what the other has written.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from typing import TYPE_CHECKING

from kafka.errors import InvalidProducerEpochError, ProducerFencedError

from service.errors import StreamError
from service.log.kafka.clients import CLIENT_ERRORS, create_producer, dispose, send
from service.log.kafka.follower import follow
from service.log.kafka.library_fixes.patches import describe_error
from service.log.protocol import VersionConflict

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from service.log.protocol import Output, Record, RecordPosition
    from service.settings.kafka import KafkaSettings

FENCED_ERRORS = (ProducerFencedError, InvalidProducerEpochError)
MAX_TRANSACTION_MS = 10_000  # readers wait for an open transaction: one whose process died must not keep them long
MAX_BACKOFF_S = 0.5


def append_if_unchanged(
    settings: KafkaSettings, output: Output, expected: RecordPosition | None, *, timeout: float
) -> None:
    """As `Log` says."""
    until = time.monotonic() + timeout
    while not _try_append(settings, output, expected, until):
        # Two who go on at once would fence each other off again and again.
        time.sleep(random.uniform(0, MAX_BACKOFF_S))
        if time.monotonic() >= until:
            raise StreamError(f"others write to {output.topic} all the time: try again later")


def _try_append(settings: KafkaSettings, output: Output, expected: RecordPosition | None, deadline: float) -> bool:
    """Whether it is written; not where somebody else began meanwhile."""
    short = min(settings.transaction_timeout_ms, MAX_TRANSACTION_MS)
    brief = settings.model_copy(
        update={"transaction_timeout_ms": short, "delivery_timeout_ms": min(settings.delivery_timeout_ms, short - 500)}
    )
    producer: KafkaProducer | None = None
    sent = None
    try:
        producer = create_producer(brief, transactional_id=f"{output.topic}+writer")
        producer.init_transactions()
        last = _find_last_record(settings, output, deadline)
        if last is not None and last.position != expected:
            if (last.value, last.headers) == (output.value, output.headers):
                return True  # it was ours: we were only not told that it was taken
            raise VersionConflict(output)
        producer.begin_transaction()
        sent = send(producer, output)
        producer.flush(timeout=brief.delivery_timeout_ms / 1000)
        sent.get(timeout=0)
        producer.commit_transaction()
    except CLIENT_ERRORS as error:
        if _is_fenced(error) or (sent is not None and sent.is_done and _is_fenced(sent.exception)):
            return False
        raise StreamError(f"Kafka did not take the message: {describe_error(error)}") from error
    finally:
        if producer is not None:
            dispose(producer)
    return True


def _find_last_record(settings: KafkaSettings, output: Output, deadline: float) -> Record | None:
    """The last record of the key that is in the topic now."""
    found: Record | None = None
    with closing(follow(settings, output.topic)) as follower:
        while not follower.caught_up:
            for record in follower.poll():
                if record.key == output.key:
                    found = record
            if time.monotonic() >= deadline:
                raise StreamError(f"{output.topic} could not be read to its end in time: try again later")
    return found


def _is_fenced(error: object) -> bool:
    """The library wraps, quotes or hands on the error, by which thread met it first."""
    seen = (error, *getattr(error, "args", ()))
    return any(
        isinstance(one, FENCED_ERRORS) or any(kind.__name__ in str(one) for kind in FENCED_ERRORS) for one in seen
    )
