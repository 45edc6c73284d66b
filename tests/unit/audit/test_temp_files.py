from __future__ import annotations

import errno
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from service.audit.temp_files import ObservationFile, RankedLineFile
from service.contracts import LabelledSentence
from service.errors import SettingsError
from service.judging.types import Observation

if TYPE_CHECKING:
    from numpy.typing import NDArray

SENTENCE = LabelledSentence(
    tokens=("Zoë", "\n", "日本"),
    labels=("B-PER", "O", "B-LOC"),
    id="x",
    annotated_at=datetime(2024, 5, 1, tzinfo=UTC),
    meta={"a": [1, None]},
)


@given(
    st.lists(
        hnp.arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(1, 5)), elements=st.floats(0, 1)), max_size=5
    )
)
@settings(deadline=None, max_examples=50)
def test_observations_come_back_to_the_bit(tables: list[NDArray[np.float64]]) -> None:
    written = [
        Observation(
            SENTENCE,
            probs,
            np.arange(len(probs)),
            np.arange(len(probs)) * 2,
            {1: "why"} if len(probs) % 2 else {},
            np.array([-1, 0, 3]),
        )
        for probs in tables
    ]
    with ObservationFile() as file:
        for observation in written:
            file.append(observation)
        assert len(file) == len(written)
        for before, after in zip(written, file, strict=True):
            assert after.sentence == before.sentence
            assert after.unscored == before.unscored
            for name in ("probs", "given", "word_index", "all_given"):
                was, now = getattr(before, name), getattr(after, name)
                assert was.shape == now.shape
                assert was.dtype == now.dtype
                assert was.tobytes() == now.tobytes()


@given(st.lists(st.tuples(st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0])), st.booleans()), max_size=20))
@settings(deadline=None, max_examples=100)
def test_ranking_is_a_stable_sort(entries: list[tuple[float | None, bool]]) -> None:
    with RankedLineFile() as ranking:
        for number, (priority, flagged) in enumerate(entries):
            ranking.add(f"ö{number}" * (number % 3), priority=priority, flagged=flagged)
        order = sorted(range(len(entries)), key=lambda n: 9.0 if entries[n][0] is None else float(entries[n][0] or 0))
        lines = [f"ö{n}" * (n % 3) for n in order]
        assert len(ranking) == len(entries)
        assert list(ranking.iterate_worst_first()) == lines
        assert list(ranking.iterate_worst_first(limit=3)) == lines[:3]
        flagged_only = [line for n, line in zip(order, lines, strict=True) if entries[n][1]]
        assert list(ranking.iterate_worst_first(flagged_only=True)) == flagged_only
        assert list(ranking.iterate_worst_first(flagged_only=True, limit=2)) == flagged_only[:2]


def test_a_full_disk_raises_an_error_that_names_tmpdir(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, _: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr("service.audit.temp_files.tempfile.TemporaryFile", lambda **_: Full())
    with RankedLineFile() as ranking, pytest.raises(SettingsError, match=r"\(No space left on device\): set TMPDIR"):
        ranking.add("x", priority=0.5, flagged=False)
