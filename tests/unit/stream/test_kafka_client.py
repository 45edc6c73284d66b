from __future__ import annotations

import logging
import socket
import time
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from service.stream import kafka_client
from service.stream.base import Output
from service.stream.kafka_client import (
    NO_VALUE,
    OddKey,
    RateLimit,
    connection,
    dispose,
    named,
    patient,
    records_of,
    send,
)
from service.stream.kafka_settings import KafkaSettings

SETTINGS = KafkaSettings.at("127.0.0.1:9")
ODD = b"k\xff\xfe"


def test_the_kind_of_an_error_is_told_once() -> None:
    assert named(KafkaTimeoutError("no metadata")) == "KafkaTimeoutError: no metadata"
    assert named(OSError("no route")) == "OSError: no route"


def batch_of(*headers: tuple[str, bytes | None]) -> DefaultRecordBatch:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10_000,
    )
    for offset in range(2):
        builder.append(offset, 1_000, b"key", b"value", list(headers))
    return DefaultRecordBatch(builder.build())


def test_a_header_key_that_is_not_text_is_read_and_written_as_it_is() -> None:
    connection(SETTINGS)  # puts the remedies in place
    found = list(batch_of(("plain", b"1"), (OddKey.of(ODD), b"2"), ("nothing", None)))
    assert [record.offset for record in found] == [0, 1]
    for record in found:
        assert [key.encode() for key, _ in record.headers] == [b"plain", ODD, b"nothing"]
        assert [value for _, value in record.headers] == [b"1", b"2", None]
        assert record.headers[1][0] == ODD.decode(errors="replace")
        again = list(batch_of(*record.headers))
        assert [key.encode() for key, _ in again[0].headers] == [b"plain", ODD, b"nothing"]


def test_the_remedies_are_put_in_place_once() -> None:
    connection(SETTINGS)
    patched = DefaultRecordBatch._read_msg
    connection(SETTINGS)
    assert DefaultRecordBatch._read_msg is patched
    assert sum(isinstance(one, RateLimit) for one in logging.getLogger("kafka.coordinator").filters) == 1


def test_a_client_that_is_not_ready_says_so_and_does_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> bool:
        raise KafkaConnectionError

    monkeypatch.setattr(kafka_client, "NOT_READY_PAUSE", 0.0)
    monkeypatch.setattr(KafkaNetClient, "await_ready", refuses)
    client = patient(bootstrap_servers=["127.0.0.1:9"])
    assert client.await_ready(1, timeout_ms=5) is False
    monkeypatch.setattr(KafkaNetClient, "await_ready", lambda *_, **__: True)
    other = patient(bootstrap_servers=["127.0.0.1:9"])
    assert other.await_ready(1) is True
    client.close()
    other.close()


def test_no_socket_is_left_open_when_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    nobody = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=1_000)
    with pytest.raises(KafkaTimeoutError):
        kafka_client.administrator(nobody)  # an open socket would be a warning, and so an error


def test_of_many_messages_of_a_kind_one_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    limit = RateLimit(interval=10.0)

    def told(message: str, *args: object) -> str | None:
        record = logging.LogRecord("kafka.coordinator", logging.WARNING, __file__, 1, message, args, None)
        return record.getMessage() if limit.filter(record) else None

    assert told("dead: %s", 1) == "dead: 1"
    assert [told("dead: %s", n) for n in range(100)] == [None] * 100
    assert told("another") == "another"
    now[0] = 10.0
    assert told("dead: %s", 2) == "dead: 2 (100 more like this were left out)"
    now[0] = 20.0
    assert told("dead: %s", 3) == "dead: 3"


def test_a_broken_connection_is_told_without_a_traceback() -> None:
    error = ConnectionResetError(104, "reset by peer")
    said = logging.LogRecord(
        "kafka.net.transport", logging.ERROR, __file__, 1, "%s: 100%% broken", ("it",), (type(error), error, None)
    )
    assert RateLimit().filter(said)
    assert logging.Formatter().format(said) == "it: 100% broken (ConnectionResetError: [Errno 104] reset by peer)"


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
    (record,) = records_of([message])
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == ("t", 2, 7, 5)
    assert (record.key, record.value, record.headers) == (None, b"\xff", (("a", b"\x00"), ("b", b"")))


@pytest.mark.parametrize(("said", "taken"), [(-1, 0), (-(2**62), 0), (2**62, None), (1_700_000_000_000_000, None)])
def test_a_producer_that_tells_an_impossible_time_harms_nobody(said: int, taken: int | None) -> None:
    """It may be in microseconds. A day in the far future would have everything forgotten that was learned before it."""
    before = int(time.time() * 1000)
    message = SimpleNamespace(topic="t", partition=0, offset=0, key=None, value=b"", headers=[], timestamp=said)
    (record,) = records_of([message])
    if taken is None:
        assert before <= record.timestamp_ms <= int(time.time() * 1000)
    else:
        assert record.timestamp_ms == taken
