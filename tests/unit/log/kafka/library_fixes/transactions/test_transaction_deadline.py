"""Transactional calls end at their deadline, whatever the client does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.producer.transaction_manager import TransactionalRequestResult

from service.log.kafka.library_fixes.transactions import transaction_deadline
from service.log.kafka.library_fixes.transactions.transaction_deadline import MAX_TRANSACTION_S, TransactionDeadline
from service.log.kafka.library_fixes.transactions.watchdog import STEP_TIMEOUT_S, TICK_INTERVAL_S
from service.settings.kafka import KafkaSettings


@pytest.fixture(autouse=True)
def short_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_deadline, "WAIT_INTERVAL_S", 0.005)


def _make_producer(result: TransactionalRequestResult) -> SimpleNamespace:
    return SimpleNamespace(
        _transaction_manager=SimpleNamespace(
            begin_commit=lambda: result, send_offsets_to_transaction=lambda offsets, group: result
        ),
        _sender=SimpleNamespace(wakeup=lambda: None),
    )


def test_a_call_that_is_never_answered_ends() -> None:
    producer = _make_producer(TransactionalRequestResult())
    with pytest.raises(KafkaTimeoutError, match="the commit was not confirmed"):
        TransactionDeadline(0.01).commit(producer)
    with pytest.raises(KafkaTimeoutError, match="the offsets were not sent"):
        TransactionDeadline(0.01).send_offsets(producer, {}, None)


def test_an_answer_ends_the_call_and_an_error_is_raised() -> None:
    confirmed, failed = TransactionalRequestResult(), TransactionalRequestResult()
    confirmed.done()
    failed.done(error=ValueError("fenced"))
    TransactionDeadline(60).commit(_make_producer(confirmed))
    with pytest.raises(ValueError, match="fenced"):
        TransactionDeadline(60).commit(_make_producer(failed))


def test_a_worker_that_has_to_give_way_does_not_wait_for_the_deadline() -> None:
    producer = _make_producer(TransactionalRequestResult())
    questions = iter([False, True])
    with pytest.raises(KafkaTimeoutError, match="the offsets were not sent, and the worker has to give way"):
        TransactionDeadline(3_600, must_end=lambda: next(questions)).send_offsets(producer, {}, None)


def test_the_longest_transaction_ends_before_the_watchdog_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that hangs costs a transaction, not the process, whatever time-out brokers have for transactions."""
    for seconds in (60, 900):
        assert TransactionDeadline(seconds).remaining_s < STEP_TIMEOUT_S - TICK_INTERVAL_S
    description = KafkaSettings.model_fields["transaction_timeout_ms"].description or ""
    assert f"A worker gives up after {MAX_TRANSACTION_S:.0f} s" in description
    monkeypatch.setattr(transaction_deadline, "MAX_TRANSACTION_S", 0.01)
    with pytest.raises(KafkaTimeoutError, match="the commit was not confirmed"):
        TransactionDeadline(3_600).commit(_make_producer(TransactionalRequestResult()))
