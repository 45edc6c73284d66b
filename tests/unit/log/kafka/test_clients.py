from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from service.log.kafka.clients import to_records


def test_records_keep_every_byte() -> None:
    message = SimpleNamespace(
        topic="t", partition=2, offset=7, key=None, value=b"\xff", headers=[("a", b"\x00"), ("b", None)], timestamp=5
    )
    (record,) = to_records([message])
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == ("t", 2, 7, 5)
    assert (record.key, record.value, record.headers) == (None, b"\xff", (("a", b"\x00"), ("b", b"")))


@pytest.mark.parametrize(
    ("timestamp", "expected"), [(-1, 0), (-(2**62), 0), (2**62, None), (1_700_000_000_000_000, None)]
)
def test_an_impossible_timestamp_is_limited_to_the_time_between_1970_and_now(
    timestamp: int, expected: int | None
) -> None:
    """It may be in microseconds. A day in the far future would make the statistics forget everything before it."""
    before_ms = int(time.time() * 1000)
    message = SimpleNamespace(topic="t", partition=0, offset=0, key=None, value=b"", headers=[], timestamp=timestamp)
    (record,) = to_records([message])
    if expected is None:
        assert before_ms <= record.timestamp_ms <= int(time.time() * 1000)
    else:
        assert record.timestamp_ms == expected
