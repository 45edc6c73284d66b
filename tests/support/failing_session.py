"""A worker session that raises the errors that a test gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.log.protocol import MAX_BATCH_BYTES, BatchResult, RecordBatch
from service.log.sqlite.session import SqliteWorkerSession

if TYPE_CHECKING:
    import pytest


class FailingSession(SqliteWorkerSession):
    """Fails at the first commits and polls, like a log that is unavailable for a while."""

    failures: list[Exception]

    def poll(self, *, max_records: int, timeout: float, max_bytes: int = MAX_BATCH_BYTES) -> RecordBatch:
        if self.failures and not isinstance(self.failures[0], AssertionError):
            raise self.failures.pop(0)
        return super().poll(max_records=max_records, timeout=timeout, max_bytes=max_bytes)

    def commit(self, result: BatchResult) -> None:
        if self.failures:
            raise self.failures.pop(0)
        super().commit(result)


def use_failing_session(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
    """Workers on the embedded log get sessions that raise the errors, one each time."""
    monkeypatch.setattr(FailingSession, "failures", list(errors), raising=False)
    monkeypatch.setattr("service.runtime.open_log.SqliteWorkerSession", FailingSession)
