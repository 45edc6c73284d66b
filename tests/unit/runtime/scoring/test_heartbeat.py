"""The first process counts how long a scoring process has not answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.scoring.heartbeat import MAX_LATE_S, MAX_SILENCE_S, Heartbeat

if TYPE_CHECKING:
    import pytest


def count(heartbeat: Heartbeat, seconds: int) -> tuple[bool, bool]:
    for _ in range(seconds):
        heartbeat.count_second()
    return bool(heartbeat.problem), heartbeat.has_ceased


def test_a_process_that_starts_is_not_late() -> None:
    assert count(Heartbeat("scoring-1"), 10 * MAX_SILENCE_S) == (False, False)


def test_a_process_that_beats_is_never_late() -> None:
    heartbeat = Heartbeat("scoring-1")
    for _ in range(3):
        heartbeat.beat()
        assert count(heartbeat, MAX_LATE_S - 1) == (False, False)


def test_silence_is_reported_and_then_ends_the_service(caplog: pytest.LogCaptureFixture) -> None:
    heartbeat = Heartbeat("scoring-1")
    heartbeat.beat()
    assert count(heartbeat, MAX_LATE_S) == (True, False)
    assert heartbeat.problem == f"has not answered for {MAX_LATE_S} s"
    heartbeat.beat()
    assert [record.getMessage() for record in caplog.records] == [
        (
            "the scoring process scoring-1 has not answered for 10 s: it gets no new connections; "
            "the service ends if it does not answer within 10 s"
        ),
        "the scoring process scoring-1 answers again",
    ]
    assert count(heartbeat, MAX_SILENCE_S) == (True, True)
