"""Writes one transaction per batch.

After any error the producer is discarded and a new one is created: offsets of an aborted transaction would leak into
the next transaction of the same producer.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kafka.errors import KafkaTimeoutError, ProducerFencedError

from service.errors import StreamError
from service.log.kafka.client_errors import CLIENT_ERRORS, WORKER_FENCED_ERRORS, describe_error, is_caused_by
from service.log.kafka.clients import PRODUCER_CLOSE_TIMEOUT_S, create_producer, send
from service.log.kafka.library_fixes.transactions.disposal import dispose
from service.log.kafka.library_fixes.transactions.transaction_deadline import TransactionDeadline
from service.log.protocol import CommitRefused, FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kafka import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.producer.future import FutureRecordMetadata

    from service.log.kafka.library_fixes.transactions.watchdog import Watchdog
    from service.log.protocol import Output
    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

RETRY_INTERVAL_S = 0.3
FLUSH_INTERVAL_S = 0.5


class TransactionalProducer:
    """Owns the transactional producer of a worker. One thread uses it."""

    def __init__(
        self,
        settings: KafkaSettings,
        *,
        transactional_id: str,
        can_claim_id: Callable[[], bool],
        watchdog: Watchdog,
        must_give_way: Callable[[], bool] = lambda: False,
    ) -> None:
        """`must_give_way`: whether another worker has to take over, since this one can't reach a broker."""
        self._must_give_way = must_give_way
        self._settings = settings
        self._transactional_id = transactional_id
        self._can_claim_id = can_claim_id
        self._watchdog = watchdog
        self._producer: KafkaProducer | None = None
        self._may_be_open = False  # a transaction may still be open; the next producer aborts it when it starts
        self._retry_at = 0.0
        self.warning = ""

    def ensure(self) -> bool:
        """Whether there is a producer. Creates one if possible; it aborts the open transaction of its predecessor."""
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
            warning = f"transactions are not possible: {describe_error(error)}"
            if warning != self.warning:
                logger.warning("%s", warning)
            self.warning = warning
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
        """Writes everything or nothing.

        Raises `CommitRefused` if nothing was written, `FencedError` if another process uses the worker's identity.
        """
        producer = self._producer
        if producer is None:
            raise CommitRefused(self.warning or "there is no producer yet")
        futures: list[FutureRecordMetadata] = []
        self._may_be_open = True
        deadline = TransactionDeadline(self._settings.transaction_timeout_ms / 1000, must_end=self._must_give_way)
        try:
            with self._watchdog.watching() as step:
                step("begin")
                producer.begin_transaction()
                futures += (send(producer, output) for output in outputs)
                step("flush")
                self._flush(producer, min(deadline.remaining_s, self._settings.delivery_timeout_ms / 1000))
                # commit_transaction() succeeds even if a message was not delivered: check every future first.
                for future in futures:
                    future.get(timeout=0)
                if offsets:
                    step("send_offsets_to_transaction")
                    deadline.send_offsets(producer, offsets, group)
                step("commit_transaction")
                deadline.commit(producer)
        except Exception as error:
            self.discard()
            if is_caused_by(error, WORKER_FENCED_ERRORS, futures):
                raise FencedError(self._describe_fencing()) from error
            raise CommitRefused(f"the transaction failed: {describe_error(error)}") from error
        except BaseException:
            self.discard()
            raise
        self._may_be_open = False

    def _flush(self, producer: KafkaProducer, timeout_s: float) -> None:
        """Waits until all messages are delivered. Ends early if the worker has to give way."""
        ends_at = time.monotonic() + timeout_s
        while True:
            remaining_s = ends_at - time.monotonic()
            try:
                producer.flush(timeout=max(0.0, min(FLUSH_INTERVAL_S, remaining_s)))
            except KafkaTimeoutError:
                if remaining_s <= FLUSH_INTERVAL_S or self._must_give_way():
                    raise
            else:
                return

    def discard(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            dispose(producer)

    def _describe_fencing(self) -> str:
        return (
            f"another process uses the transactional id {self._transactional_id}, or this process was suspended for longer"
            " than transaction_timeout_ms: it ends, start it again if no other process replaces it"
        )

    def close(self) -> None:
        """Aborts an open transaction first: readers would wait for it until it times out."""
        if self._may_be_open:
            try:
                self.ensure()
            except FencedError as error:
                logger.warning("%s", error)
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=PRODUCER_CLOSE_TIMEOUT_S)
        except CLIENT_ERRORS:
            dispose(producer)
