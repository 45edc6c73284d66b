"""Log lines and whoever reads them, or does not."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.telemetry import Telemetry, stderr_handler
from service.telemetry.stderr_handler import StderrHandler, dropped_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

WAIT_S = 60.0
LONG = "y" * 70_000  # more than a pipe holds


@contextmanager
def unread_stderr(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Replaces standard error by a pipe, and gives the end to read."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        yield reading
    os.close(reading)


def log(handler: StderrHandler, text: str) -> None:
    handler.handle(logging.makeLogRecord({"msg": text}))


def read_until(reading: int, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        part = os.read(reading, 65_536)
        assert part
        data += part
    return data


def test_lines_that_nobody_reads_wait_then_are_dropped_and_all_others_come_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stderr_handler, "MAX_WAITING_LINES", 5)
    handler, before = StderrHandler(), dropped_lines.count
    with unread_stderr(monkeypatch) as reading:
        log(handler, "first")
        log(handler, LONG)
        deadline = time.monotonic() + WAIT_S
        while handler._waiting.qsize():  # the thread waits for space in the pipe
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for number in range(8):
            log(handler, f"line {number}")
        assert dropped_lines.count - before == 3
        notice = b"labelwatch: 3 log lines were dropped, because nobody read standard error\n"
        assert read_until(reading, notice).decode().splitlines() == [
            "first", LONG, *(f"line {number}" for number in range(5)), notice.decode().strip(),
        ]  # fmt: skip
        handler.flush()
        log(handler, "again")
        assert read_until(reading, b"again\n") == b"again\n"


def test_dropped_lines_are_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = Telemetry()
    before = dropped_lines.count
    monkeypatch.setattr(stderr_handler, "MAX_WAITING_LINES", 1)
    handler = StderrHandler()
    with unread_stderr(monkeypatch) as reading:
        for _ in range(10):
            log(handler, LONG)
        assert dropped_lines.count > before
        telemetry.render_exposition()
        assert telemetry.registry.get_sample_value("labelwatch_log_lines_dropped_total") == dropped_lines.count
        read_until(reading, b"standard error\n")


def test_standard_error_without_a_file_or_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    handler, text = StderrHandler(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    log(handler, "here")
    assert text.getvalue() == "here\n"
    text.close()
    log(handler, "nowhere")
    monkeypatch.setattr(sys, "stderr", None)
    log(handler, "nowhere")


def test_a_wrong_call_of_a_logger_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    StderrHandler().handle(logging.makeLogRecord({"msg": "%d sentences", "args": ("many",)}))
    assert "Logging error" in text.getvalue()
