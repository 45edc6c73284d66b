"""A short run of the fuzzer, and that it finds what it looks for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.fuzz import run
from tests.fuzz.run import fuzz
from tests.fuzz.targets import Target, open_targets

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ROUNDS = 40  # the same inputs on every machine


def test_nothing_but_documented_errors(tmp_path: Path) -> None:
    with open_targets(tmp_path) as targets:
        count, failures = fuzz(targets, seed=1, rounds=ROUNDS)
        assert count == ROUNDS * len(targets)
    assert not failures, "\n".join(f"{each.target}: {each.data[:500]!r}\n{each.error}" for each in failures)


def test_a_crash_is_found_and_shortened() -> None:
    def read(data: bytes) -> None:
        if b"\xff" in data:
            raise KeyError("planted")

    _, (failure,) = fuzz([Target("planted", (b"a long input" * 20,), read)], seed=1, seconds=2)
    assert failure.data == b"\xff"
    assert "planted" in failure.error


def test_a_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_CPU_S", 0.1)

    def read(data: bytes) -> None:
        while True:
            json.dumps(len(data))

    _, (failure,) = fuzz([Target("endless", (b"x",), read)], seed=1, seconds=0.1)
    assert "HangError" in failure.error
