from __future__ import annotations

from service.telemetry.conditions import merge_conditions


def test_who_sees_no_trouble_does_not_silence_another() -> None:
    told = merge_conditions({"worker": "", "log": "away"}, {"worker": "the thread has died", "log": "", "probes": None})
    assert told == {"worker": "the thread has died", "log": "away", "probes": ""}


def test_the_same_is_said_once_and_the_different_side_by_side() -> None:
    assert merge_conditions({"log": "away"}, {"log": "away"}, {"log": "slow"}) == {"log": "away; slow"}
