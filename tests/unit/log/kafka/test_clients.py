from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient

from service.log.kafka import clients as kafka_client
from service.log.kafka.clients import (
    NO_VALUE,
    dispose,
    requeueing_client,
    send,
    to_records,
)
from service.log.protocol import Output
from service.settings.kafka import KafkaSettings


def test_a_client_that_is_not_ready_says_so_and_does_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> bool:
        raise KafkaConnectionError

    monkeypatch.setattr(kafka_client, "NOT_READY_BACKOFF_S", 0.0)
    monkeypatch.setattr(KafkaNetClient, "await_ready", refuses)
    client = requeueing_client(bootstrap_servers=["127.0.0.1:9"])
    assert client.await_ready(1, timeout_ms=5) is False
    monkeypatch.setattr(KafkaNetClient, "await_ready", lambda *_, **__: True)
    other = requeueing_client(bootstrap_servers=["127.0.0.1:9"])
    assert other.await_ready(1) is True
    client.close()
    other.close()


def test_no_socket_is_left_open_when_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    nobody = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=1_000)
    with pytest.raises(KafkaTimeoutError):
        kafka_client.create_admin_client(nobody)  # an open socket would be a warning, and so an error


def test_a_message_without_key_and_value_is_sent_too() -> None:
    sent: list[dict[str, object]] = []
    producer = SimpleNamespace(send=lambda topic, **rest: sent.append({"topic": topic, **rest}))
    send(producer, Output("t", None, None, (("a", b"1"),), 3))
    send(producer, Output("t", b"k", None))
    assert sent == [
        {"topic": "t", "key": None, "value": NO_VALUE, "headers": [("a", b"1")], "partition": 3},
        {"topic": "t", "key": b"k", "value": None, "headers": [], "partition": None},
    ]


def test_a_producer_that_will_not_close_is_forced_to() -> None:
    calls: list[str] = []

    def close(timeout: float) -> None:
        calls.append(f"close {timeout}")
        if timeout == 0:
            raise KafkaTimeoutError

    sender = SimpleNamespace(force_close=lambda: calls.append("force"))
    dispose(SimpleNamespace(close=close, _sender=sender))
    assert calls == ["close 0", "force", "close 1"]


def test_records_keep_every_byte() -> None:
    message = SimpleNamespace(
        topic="t", partition=2, offset=7, key=None, value=b"\xff", headers=[("a", b"\x00"), ("b", None)], timestamp=5
    )
    (record,) = to_records([message])
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == ("t", 2, 7, 5)
    assert (record.key, record.value, record.headers) == (None, b"\xff", (("a", b"\x00"), ("b", b"")))


@pytest.mark.parametrize(("said", "taken"), [(-1, 0), (-(2**62), 0), (2**62, None), (1_700_000_000_000_000, None)])
def test_a_producer_that_tells_an_impossible_time_harms_nobody(said: int, taken: int | None) -> None:
    """It may be in microseconds. A day in the far future would have everything forgotten that was learned before it."""
    before = int(time.time() * 1000)
    message = SimpleNamespace(topic="t", partition=0, offset=0, key=None, value=b"", headers=[], timestamp=said)
    (record,) = to_records([message])
    if taken is None:
        assert before <= record.timestamp_ms <= int(time.time() * 1000)
    else:
        assert record.timestamp_ms == taken
