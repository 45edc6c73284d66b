"""One transaction a batch. After any error the producer is thrown away: what it remembers of an aborted transaction
would leak into the next.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kafka.errors import FencedInstanceIdError, ProducerFencedError

from service.errors import StreamError
from service.log.kafka.clients import CLIENT_ERRORS, create_producer, dispose, send
from service.log.kafka.library_fixes.patches import describe_error
from service.log.protocol import CommitRefused, FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.producer.future import FutureRecordMetadata

    from service.log.kafka.library_fixes.watchdog import Watchdog
    from service.log.protocol import Output
    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

FENCED_ERRORS = (ProducerFencedError, FencedInstanceIdError)
RETRY_INTERVAL_S = 1.0
CLOSE_TIMEOUT_S = 5.0


class TransactionalProducer:
    """Owns the transactional producer. One thread uses it."""

    def __init__(
        self, settings: KafkaSettings, *, transactional_id: str, can_claim_id: Callable[[], bool], watchdog: Watchdog
    ) -> None:
        self._settings = settings
        self._transactional_id = transactional_id
        self._can_claim_id = can_claim_id
        self._watchdog = watchdog
        self._producer: KafkaProducer | None = None
        self._may_be_open = False  # a transaction of ours may be open still; the next producer aborts it as it begins
        self._retry_at = 0.0
        self.warning = ""

    def ensure(self) -> bool:
        """Whether there is a producer that has cleared away what its predecessors left; makes one if it can."""
        if self._producer is not None:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._producer = self._create() if self._can_claim_id() else None
        except FencedError:
            raise
        except ProducerFencedError as error:
            raise FencedError(self._describe_fencing()) from error
        except (StreamError, *CLIENT_ERRORS) as error:
            self._retry_at = time.monotonic() + RETRY_INTERVAL_S
            trouble = f"transactions are not possible: {describe_error(error)}"
            if trouble != self.warning:
                logger.warning("%s", trouble)
            self.warning = trouble
            return False
        self.warning = ""
        return self._producer is not None

    def _create(self) -> KafkaProducer:
        producer = create_producer(self._settings, transactional_id=self._transactional_id)
        try:
            producer.init_transactions()
        except BaseException:
            dispose(producer)
            raise
        self._may_be_open = False
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
            raise CommitRefused(self.warning or "there is no producer yet")
        futures: list[FutureRecordMetadata] = []
        self._may_be_open = True
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
            self.discard()
            if _is_fenced(error, futures):
                raise FencedError(self._describe_fencing()) from error
            raise CommitRefused(f"the transaction failed: {describe_error(error)}") from error
        except BaseException:
            self.discard()
            raise
        self._may_be_open = False

    def discard(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            dispose(producer)

    def _describe_fencing(self) -> str:
        return (
            f"another process has the transactional id {self._transactional_id}, or this one slept for longer than its transaction"
            " may last: it ends, start it again if it should go on"
        )

    def close(self) -> None:
        """A transaction left open would keep readers waiting until it times out, so it is cleared away."""
        if self._may_be_open:
            try:
                self.ensure()
            except FencedError as error:
                logger.warning("%s", error)
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=CLOSE_TIMEOUT_S)
        except CLIENT_ERRORS:
            dispose(producer)


def _is_fenced(error: BaseException, futures: Iterable[FutureRecordMetadata]) -> bool:
    """The library wraps, quotes or hands on the error, by which thread met it first."""
    seen = [error, *getattr(error, "args", ()), *(future.exception for future in futures if future.is_done)]
    return any(
        isinstance(one, FENCED_ERRORS) or any(kind.__name__ in str(one) for kind in FENCED_ERRORS) for one in seen
    )
