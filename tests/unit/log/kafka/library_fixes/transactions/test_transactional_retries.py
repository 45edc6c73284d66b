from __future__ import annotations

import pytest
from kafka.errors import KafkaConnectionError, KafkaError, RequestTimedOutError
from kafka.producer.transaction_manager import EndTxnHandler, TransactionManager

from service.log.kafka.library_fixes.patches import patch_library


def send_end_of_transaction() -> tuple[TransactionManager, EndTxnHandler, int]:
    """A producer that has asked its coordinator to commit."""
    patch_library()
    manager = TransactionManager("worker-1", 13_000, 15, None, None)
    handler = EndTxnHandler(manager, committed=True)
    return manager, handler, manager.next_in_flight_request_correlation_id()


@pytest.mark.parametrize("error", [RequestTimedOutError("no answer"), KafkaConnectionError("it broke")])
def test_a_request_without_an_answer_is_sent_again(error: KafkaError) -> None:
    manager, handler, correlation_id = send_end_of_transaction()
    handler.on_complete(correlation_id, error)
    assert not manager.has_fatal_error()
    assert handler.is_retry
    queued = [request for *_, request in manager._pending_requests]
    assert handler in queued
    assert any(type(request).__name__ == "FindCoordinatorHandler" for request in queued), (
        "the coordinator may be another"
    )


def test_other_errors_stay_fatal() -> None:
    manager, handler, correlation_id = send_end_of_transaction()
    handler.on_complete(correlation_id, KafkaError("something else"))
    assert manager.has_fatal_error()
