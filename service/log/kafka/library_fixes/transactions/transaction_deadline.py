"""Transactional calls that end at a deadline.

Gap: `send_offsets_to_transaction` and `commit_transaction` wait without a time-out. `max_block_ms` applies to
`init_transactions` only.
Symptom: a worker that can't reach its coordinator keeps its partitions, because its heartbeat continues.
Remove it when: both calls have a time-out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka.errors import KafkaTimeoutError

from service.log.kafka.library_fixes.transactions.watchdog import STEP_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.producer.transaction_manager import TransactionalRequestResult

WAIT_INTERVAL_S = 0.5
# Brokers may leave a transaction open for longer. A call that waited as long would look to the watchdog like one that hangs,
# and it would end the process instead of the transaction.
MAX_TRANSACTION_S = STEP_TIMEOUT_S - 5.0


class TransactionDeadline:
    """The end of the time that one transaction may take. What it did not finish then has an unknown outcome."""

    def __init__(self, seconds: float, *, must_end: Callable[[], bool] = lambda: False) -> None:
        """`must_end`: whether to give up before that."""
        self._seconds = min(seconds, MAX_TRANSACTION_S)
        self._must_end = must_end
        self._ends_at = time.monotonic() + self._seconds

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    def send_offsets(
        self,
        producer: KafkaProducer,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata | None,
    ) -> None:
        manager = producer._transaction_manager  # noqa: SLF001 - the public call has no time-out
        self._wait(producer, manager.send_offsets_to_transaction(dict(offsets), group), "the offsets were not sent")

    def commit(self, producer: KafkaProducer) -> None:
        manager = producer._transaction_manager  # noqa: SLF001 - the public call has no time-out
        self._wait(producer, manager.begin_commit(), "the commit was not confirmed")

    def _wait(self, producer: KafkaProducer, result: TransactionalRequestResult, problem: str) -> None:
        producer._sender.wakeup()  # noqa: SLF001
        while not result.wait(timeout_ms=1000 * min(self.remaining_s, WAIT_INTERVAL_S)):
            if not self.remaining_s:
                raise KafkaTimeoutError(f"{problem} within the {self._seconds:.0f} s of a transaction")
            if self._must_end():
                raise KafkaTimeoutError(f"{problem}, and the worker has to give way")
