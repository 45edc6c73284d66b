"""Three real workers on a real broker are killed, frozen and drained under load: the result is exact to the bit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tests.chaos.kafka_chaos import find_impossible_faults, run_chaos
from tests.chaos.plan import SHORT_PROFILES, without

if TYPE_CHECKING:
    from pathlib import Path

SEED = 5


def test_kills_and_stops_leave_no_trace(tmp_path: Path) -> None:
    servers = os.environ.get("KAFKA_BOOTSTRAP_SERVERS")
    impossible = find_impossible_faults(tmp_path, external_brokers=servers is not None)
    profile = without(SHORT_PROFILES[1], impossible)
    report = run_chaos(tmp_path, seed=SEED, profile=profile, servers=servers)
    assert not report.problems, "\n".join(report.problems)
    assert report.messages >= profile.messages
    assert report.faults == profile.faults
