"""One transaction a batch. After any error the producer is thrown away: what it remembers of an aborted transaction
would leak into the next.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kafka.errors import FencedInstanceIdError, ProducerFencedError

from service.errors import StreamError
from service.log.kafka.clients import CLIENT_ERRORS, dispose, send, writer
from service.log.kafka.library_fixes.patches import named
from service.log.protocol import CommitRefused, FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.producer.future import FutureRecordMetadata

    from service.log.kafka.library_fixes.watchdog import Watchdog
    from service.log.kafka.settings import KafkaSettings
    from service.log.protocol import Output

log = logging.getLogger(__name__)

FENCED = (ProducerFencedError, FencedInstanceIdError)
RETRY_AFTER = 1.0
CLOSE_TIMEOUT = 5.0


class Committer:
    """Owns the transactional producer. One thread uses it."""

    def __init__(
        self, settings: KafkaSettings, *, transactional_id: str, may_write: Callable[[], bool], watchdog: Watchdog
    ) -> None:
        self._settings = settings
        self._id = transactional_id
        self._may_write = may_write
        self._watchdog = watchdog
        self._producer: KafkaProducer | None = None
        self._left_open = False  # a transaction of ours may be open still; the next producer aborts it as it begins
        self._try_at = 0.0
        self.trouble = ""

    def ready(self) -> bool:
        """Whether there is a producer that has cleared away what its predecessors left; makes one if it can."""
        if self._producer is not None:
            return True
        if time.monotonic() < self._try_at:
            return False
        try:
            self._producer = self._made() if self._may_write() else None
        except FencedError:
            raise
        except ProducerFencedError as error:
            raise FencedError(self._fenced()) from error
        except (StreamError, *CLIENT_ERRORS) as error:
            self._try_at = time.monotonic() + RETRY_AFTER
            trouble = f"transactions are not possible: {named(error)}"
            if trouble != self.trouble:
                log.warning("%s", trouble)
            self.trouble = trouble
            return False
        self.trouble = ""
        return self._producer is not None

    def _made(self) -> KafkaProducer:
        producer = writer(self._settings, transactional_id=self._id)
        try:
            producer.init_transactions()
        except BaseException:
            dispose(producer)
            raise
        self._left_open = False
        return producer

    def commit(
        self,
        outputs: Iterable[Output],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata | None,
    ) -> None:
        """All of it, or nothing: then `CommitRefused`, or `FencedError` where somebody else has our identity."""
        producer = self._producer
        if producer is None:
            raise CommitRefused(self.trouble or "there is no producer yet")
        futures: list[FutureRecordMetadata] = []
        self._left_open = True
        try:
            with self._watchdog.watching() as step:
                step("begin")
                producer.begin_transaction()
                futures += (send(producer, output) for output in outputs)
                step("flush")
                producer.flush(timeout=self._settings.delivery_timeout_ms / 1000)
                # A message that failed is missing from a commit that succeeds all the same: look at every one.
                for future in futures:
                    future.get(timeout=0)
                if offsets:
                    step("send_offsets_to_transaction")
                    producer.send_offsets_to_transaction(dict(offsets), group)
                step("commit_transaction")
                producer.commit_transaction()
        except Exception as error:
            self.drop()
            if _is_fenced(error, futures):
                raise FencedError(self._fenced()) from error
            raise CommitRefused(f"the transaction failed: {named(error)}") from error
        except BaseException:
            self.drop()
            raise
        self._left_open = False

    def drop(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            dispose(producer)

    def _fenced(self) -> str:
        return (
            f"another process has the transactional id {self._id}, or this one slept for longer than its transaction"
            " may last: it ends, start it again if it should go on"
        )

    def close(self) -> None:
        """A transaction left open would keep readers waiting until it times out, so it is cleared away."""
        if self._left_open:
            try:
                self.ready()
            except FencedError as error:
                log.warning("%s", error)
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=CLOSE_TIMEOUT)
        except CLIENT_ERRORS:
            dispose(producer)


def _is_fenced(error: BaseException, futures: Iterable[FutureRecordMetadata]) -> bool:
    """The library wraps, quotes or hands on the error, by which thread met it first."""
    seen = [error, *getattr(error, "args", ()), *(future.exception for future in futures if future.is_done)]
    return any(isinstance(one, FENCED) or any(kind.__name__ in str(one) for kind in FENCED) for one in seen)
