from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kafka.errors import KafkaTimeoutError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from service.log.kafka.clients import build_client_config
from service.log.kafka.library_fixes.patches import MAX_MESSAGE_KINDS, NonUtf8HeaderKey, RateLimitFilter, describe_error
from service.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    import pytest

SETTINGS = KafkaSettings.for_servers("127.0.0.1:9")
ODD = b"k\xff\xfe"


def test_the_kind_of_an_error_is_told_once() -> None:
    assert describe_error(KafkaTimeoutError("no metadata")) == "KafkaTimeoutError: no metadata"
    assert describe_error(OSError("no route")) == "OSError: no route"


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
    build_client_config(SETTINGS)  # puts the remedies in place
    found = list(batch_of(("plain", b"1"), (NonUtf8HeaderKey.from_bytes(ODD), b"2"), ("nothing", None)))
    assert [record.offset for record in found] == [0, 1]
    for record in found:
        assert [key.encode() for key, _ in record.headers] == [b"plain", ODD, b"nothing"]
        assert [value for _, value in record.headers] == [b"1", b"2", None]
        assert record.headers[1][0] == ODD.decode(errors="replace")
        again = list(batch_of(*record.headers))
        assert [key.encode() for key, _ in again[0].headers] == [b"plain", ODD, b"nothing"]


def test_the_remedies_are_put_in_place_once() -> None:
    build_client_config(SETTINGS)
    patched = DefaultRecordBatch._read_msg
    build_client_config(SETTINGS)
    assert DefaultRecordBatch._read_msg is patched
    assert sum(isinstance(one, RateLimitFilter) for one in logging.getLogger("kafka.coordinator").filters) == 1


def test_of_many_messages_of_a_kind_one_gets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    limit = RateLimitFilter(interval=10.0)

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
    assert RateLimitFilter().filter(said)
    assert logging.Formatter().format(said) == "it: 100% broken (ConnectionResetError: [Errno 104] reset by peer)"


def test_messages_that_differ_in_numbers_only_are_of_one_kind() -> None:
    """The library writes some of them out itself: none would be left out, and each remembered for ever."""
    limit = RateLimitFilter(interval=10.0)

    def told(message: str) -> bool:
        return limit.filter(logging.LogRecord("kafka.net.manager", logging.ERROR, __file__, 1, message, (), None))

    tries = [told(f"Bootstrap attempt to bootstrap-{n} failed: refused (backoff 0.{n:02} secs)") for n in range(100)]
    assert tries == [True] + [False] * 99


def test_kinds_are_not_remembered_for_ever() -> None:
    limit = RateLimitFilter(interval=10.0)
    for n in range(5_000):
        word = "".join(chr(97 + int(digit)) for digit in str(n))
        assert limit.filter(logging.LogRecord("kafka", logging.ERROR, __file__, 1, f"failed: {word}", (), None))
    assert len(limit._seen) <= MAX_MESSAGE_KINDS
