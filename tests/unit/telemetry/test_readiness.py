from __future__ import annotations

from service.telemetry.readiness import Readiness, merge_conditions


def test_a_condition_that_holds_in_one_source_does_not_hide_the_reason_of_another() -> None:
    merged = merge_conditions(
        {"worker": "", "log": "away"}, {"worker": "the thread has died", "log": "", "probes": None}
    )
    assert merged == {"worker": "the thread has died", "log": "away", "probes": ""}


def test_equal_reasons_are_given_once_and_different_ones_together() -> None:
    assert merge_conditions({"log": "away"}, {"log": "away"}, {"log": "slow"}) == {"log": "away; slow"}


def test_a_degraded_process_stays_ready() -> None:
    readiness = Readiness.evaluate({"worker": ""}, {"broker": "away", "review": ""})
    assert readiness == Readiness(ready=True, conditions={"worker": ""}, degraded={"broker": "away"})
    assert not Readiness.evaluate({"worker": "the thread has died"}, {}).ready
