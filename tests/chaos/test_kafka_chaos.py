"""Three real workers on a real broker are killed, frozen and drained under load: the result is exact to the bit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.chaos.kafka_chaos import run_chaos
from tests.chaos.plan import SHORT_PROFILES

if TYPE_CHECKING:
    from pathlib import Path

SEED = 5


def test_kills_and_stops_leave_no_trace(tmp_path: Path) -> None:
    profile = SHORT_PROFILES[1]
    report = run_chaos(tmp_path, seed=SEED, profile=profile, servers=os.environ.get("KAFKA_BOOTSTRAP_SERVERS"))
    assert not report.problems, "\n".join(report.problems)
    assert report.messages >= profile.messages
    assert report.faults == profile.faults
