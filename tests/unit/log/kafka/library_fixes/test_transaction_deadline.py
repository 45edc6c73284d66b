"""Transactional calls end at their deadline, whatever the client does."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.producer.transaction_manager import TransactionalRequestResult

from service.log.kafka.library_fixes.transaction_deadline import TransactionDeadline


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
