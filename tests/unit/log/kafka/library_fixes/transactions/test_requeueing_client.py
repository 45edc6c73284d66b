from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient

from service.log.kafka.library_fixes.transactions import requeueing_client
from service.log.kafka.library_fixes.transactions.requeueing_client import create_requeueing_client

if TYPE_CHECKING:
    import pytest


def test_a_client_that_is_not_ready_returns_false_instead_of_raising(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bool:
        raise KafkaConnectionError

    monkeypatch.setattr(requeueing_client, "NOT_READY_BACKOFF_S", 0.0)
    monkeypatch.setattr(KafkaNetClient, "await_ready", refuse)
    unready_client = create_requeueing_client(bootstrap_servers=["127.0.0.1:9"])
    assert unready_client.await_ready(1, timeout_ms=5) is False
    monkeypatch.setattr(KafkaNetClient, "await_ready", lambda *_, **__: True)
    ready_client = create_requeueing_client(bootstrap_servers=["127.0.0.1:9"])
    assert ready_client.await_ready(1) is True
    unready_client.close()
    ready_client.close()
