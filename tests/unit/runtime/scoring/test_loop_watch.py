"""A scoring process whose event loop stands still is not ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.scoring import child
from service.runtime.scoring.child import LoopWatch

if TYPE_CHECKING:
    import pytest


def test_a_loop_that_stands_still_is_noticed_until_it_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("service.runtime.scoring.child.time.monotonic", lambda: now[0])
    watch = LoopWatch()
    now[0] += 1_000
    assert watch.standstill == ""  # it has not started yet: the supervisor says so
    watch.beat()
    now[0] += child.MAX_STANDSTILL_S
    assert watch.standstill == ""
    now[0] += 1
    assert "the event loop has not run for more than 10 s" in watch.standstill
    watch.beat()
    assert watch.standstill == ""
