from __future__ import annotations

from types import SimpleNamespace

from kafka.errors import KafkaTimeoutError

from service.log.kafka.library_fixes.transactions.disposal import dispose


def test_a_producer_that_does_not_close_is_forced_to() -> None:
    calls: list[str] = []

    def close(timeout: float) -> None:
        calls.append(f"close {timeout}")
        if timeout == 0:
            raise KafkaTimeoutError

    sender = SimpleNamespace(force_close=lambda: calls.append("force"))
    dispose(SimpleNamespace(close=close, _sender=sender))
    assert calls == ["close 0", "force", "close 1"]
