"""Writes log lines to standard error without ever waiting for whoever reads it.

A line goes out at once if standard error takes it. If not, such as when it is a pipe that nobody reads, lines wait in a
bounded queue for a thread, and further ones are dropped and counted: a request must not wait for its access log.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import sys
import threading
import time
from contextlib import suppress
from typing import Final

MAX_WAITING_LINES: Final = 10_000
FLUSH_TIMEOUT_S: Final = 1.0
_FLUSH_CHECK_INTERVAL_S: Final = 0.01


class _DroppedLines:
    """Counts the lines that were dropped since the process started."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def add(self) -> None:
        with self._lock:
            self._count += 1

    @property
    def count(self) -> int:
        return self._count


dropped_lines: Final = _DroppedLines()


class StderrHandler(logging.Handler):
    """Writes to the current `sys.stderr`, which a caller may replace."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: queue.Queue[bytes] = queue.Queue(MAX_WAITING_LINES)
        self._writer: threading.Thread | None = None
        self._reported_lines = dropped_lines.count

    def emit(self, record: logging.LogRecord) -> None:
        """Formats here, since the request id belongs to the current context."""
        try:
            line = self.format(record) + "\n"
        except Exception:  # noqa: BLE001 - a wrong call of the logger must not fail the request
            self.handleError(record)
            return
        try:
            file = sys.stderr.fileno()
        except (AttributeError, OSError, ValueError):  # replaced by something without a file, or closed
            _write_text(line)
            return
        data = line.encode(errors="backslashreplace")
        if self._waiting.unfinished_tasks == 0 and _is_writable(file, len(data)):
            _write_bytes(file, data)
            return
        try:
            self._waiting.put_nowait(data)
        except queue.Full:
            dropped_lines.add()
            return
        if self._writer is None:
            self._writer = threading.Thread(target=self._write_waiting, name="log-writer", daemon=True)
            self._writer.start()

    def _write_waiting(self) -> None:
        while True:
            data = self._waiting.get()
            with suppress(OSError, ValueError, AttributeError):
                _write_bytes(sys.stderr.fileno(), data)
            dropped = dropped_lines.count - self._reported_lines
            if dropped and self._waiting.empty():
                notice = f"labelwatch: {dropped} log lines were dropped, because nobody read standard error\n"
                with suppress(OSError, ValueError, AttributeError):
                    _write_bytes(sys.stderr.fileno(), notice.encode())
                self._reported_lines += dropped
            self._waiting.task_done()

    def flush(self) -> None:
        """Gives waiting lines a moment, such as when the process ends."""
        deadline = time.monotonic() + FLUSH_TIMEOUT_S
        while self._waiting.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(_FLUSH_CHECK_INTERVAL_S)


def _is_writable(file: int, size: int) -> bool:
    """Whether so many bytes can be written without waiting. A pipe that has space takes at least PIPE_BUF bytes."""
    if size > select.PIPE_BUF:
        return False
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(0))


def _write_bytes(file: int, data: bytes) -> None:
    # Not through sys.stderr: a thread that waits there holds a lock, which the process needs to end.
    with suppress(OSError):  # standard error is closed: the service goes on
        while data:
            data = data[os.write(file, data) :]


def _write_text(line: str) -> None:
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(line)
        sys.stderr.flush()
