from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from service.log.kafka.library_fixes.log_rate_limit import MAX_MESSAGE_KINDS, RateLimitFilter

if TYPE_CHECKING:
    import pytest


def test_one_message_of_a_kind_passes_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    rate_limit = RateLimitFilter(interval=10.0)

    def log(message: str, *args: object) -> str | None:
        record = logging.LogRecord("kafka.coordinator", logging.WARNING, __file__, 1, message, args, None)
        return record.getMessage() if rate_limit.filter(record) else None

    assert log("dead: %s", 1) == "dead: 1"
    assert [log("dead: %s", n) for n in range(100)] == [None] * 100
    assert log("another") == "another"
    now[0] = 10.0
    assert log("dead: %s", 2) == "dead: 2 (100 more like this were left out)"
    now[0] = 20.0
    assert log("dead: %s", 3) == "dead: 3"


def test_a_broken_connection_is_logged_without_a_traceback() -> None:
    error = ConnectionResetError(104, "reset by peer")
    record = logging.LogRecord(
        "kafka.net.transport", logging.ERROR, __file__, 1, "%s: 100%% broken", ("it",), (type(error), error, None)
    )
    assert RateLimitFilter().filter(record)
    assert logging.Formatter().format(record) == "it: 100% broken (ConnectionResetError: [Errno 104] reset by peer)"


def test_messages_that_differ_in_numbers_only_are_of_one_kind() -> None:
    """The library formats some of them before it logs them: all would pass, and the filter would remember each."""
    rate_limit = RateLimitFilter(interval=10.0)

    def passes(message: str) -> bool:
        return rate_limit.filter(logging.LogRecord("kafka.net.manager", logging.ERROR, __file__, 1, message, (), None))

    texts = [f"Bootstrap attempt to bootstrap-{n} failed: refused (backoff 0.{n:02} secs)" for n in range(100)]
    assert [passes(text) for text in texts] == [True] + [False] * 99


def test_the_number_of_remembered_kinds_is_limited() -> None:
    rate_limit = RateLimitFilter(interval=10.0)
    for n in range(5_000):
        word = "".join(chr(97 + int(digit)) for digit in str(n))
        assert rate_limit.filter(logging.LogRecord("kafka", logging.ERROR, __file__, 1, f"failed: {word}", (), None))
    assert len(rate_limit._seen) <= MAX_MESSAGE_KINDS
