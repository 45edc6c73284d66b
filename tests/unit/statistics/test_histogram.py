from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings
from hypothesis import strategies as st

from service.errors import InvalidInput, StateError
from service.statistics import CUTOFF_ALL, PriorityHistogram
from service.statistics.histogram import BIN_EDGES, N_BINS

priority = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1 - 2**-53, *BIN_EDGES[::97]]),
    st.floats(0, 36).map(lambda x: 1 / (1 + float(np.exp(-x)))),
)
priorities = st.lists(priority, max_size=60)


def histogram(values: list[float]) -> PriorityHistogram:
    return PriorityHistogram.empty().update(np.array(values, dtype=np.float64))


def test_the_edges_rise_and_are_fine_at_both_ends() -> None:
    edges = np.array(BIN_EDGES)
    assert (np.diff(edges) > 0).all()
    assert edges[0] < 1e-14
    assert 0 < 1 - edges[-1] < 1e-14
    logits = np.log(edges) - np.log1p(-edges)
    middle = np.abs(logits) < 20
    np.testing.assert_allclose(np.diff(logits[middle]), 1 / 32, atol=1e-6)


@settings(deadline=None)
@example_of(priorities)
def test_one_by_one_is_the_same_as_all_at_once(values: list[float]) -> None:
    single = PriorityHistogram.empty()
    for value in values:
        single = single.update(value)
    assert single == histogram(values)
    assert hash(single) == hash(histogram(values))
    assert single.total == len(values)
    for value in values:
        i = int(np.flatnonzero(PriorityHistogram.empty().update(value).counts)[0])
        assert i == 0 or BIN_EDGES[i - 1] <= value
        assert i == N_BINS - 1 or value < BIN_EDGES[i]


@settings(deadline=None)
@example_of(priorities, priorities, priorities)
def test_merge_is_associative_and_commutative(a: list[float], b: list[float], c: list[float]) -> None:
    x, y, z = histogram(a), histogram(b), histogram(c)
    assert x.merge(y) == y.merge(x)
    assert x.merge(y).merge(z) == x.merge(y.merge(z)) == histogram(a + b + c)


@settings(deadline=None)
@example_of(st.lists(priority, min_size=1, max_size=60), st.floats(0, 1))
def test_the_cut_never_exceeds_the_budget_and_is_the_largest_edge_that_doesnt(
    values: list[float], share: float
) -> None:
    cut = histogram(values).find_cutoff(share)
    allowed = share * len(values)
    assert sum(value < cut for value in values) <= allowed
    larger = [edge for edge in BIN_EDGES if edge > cut]
    if larger and share > 0:
        assert sum(value < larger[0] for value in values) > allowed


def test_cuts_of_a_known_spread() -> None:
    values = np.random.default_rng(0).random(100_000)
    spread = PriorityHistogram.empty().update(values)
    for share in (0.001, 0.05, 0.3, 0.9, 0.999):
        assert spread.find_cutoff(share) == pytest.approx(share, rel=0.05, abs=0.01)
    assert spread.find_cutoff(1.0) == CUTOFF_ALL
    assert spread.find_cutoff(0.0) == 0.0
    assert PriorityHistogram.empty().find_cutoff(0.5) == 0.0
    assert PriorityHistogram.empty().find_cutoff(1) == CUTOFF_ALL


def test_saturated_priorities_differ() -> None:
    spread = histogram([1 - 1e-9] * 5 + [1 - 1e-10] * 95)
    assert 1 - 1e-9 < spread.find_cutoff(0.05) <= 1 - 1e-10
    assert histogram([0.0] * 10).find_cutoff(0.05) == 0.0


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 1.5])
def test_a_priority_that_is_none_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match="`priority`"):
        PriorityHistogram.empty().update(value)
    with pytest.raises(InvalidInput) as caught:
        histogram([0.5, value])
    assert caught.value.sentence == 1


@pytest.mark.parametrize("share", [-0.1, 1.1, np.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InvalidInput, match="`share`"):
        PriorityHistogram.empty().find_cutoff(share)


def test_update_changes_nothing_and_the_counts_cant_be_changed() -> None:
    empty = PriorityHistogram.empty()
    for other in (empty.update(0.3), empty.merge(empty), PriorityHistogram.restore(empty.snapshot()), empty):
        with pytest.raises(ValueError, match="read-only"):
            other.counts[0] = 1
    assert empty.total == 0


@settings(deadline=None)
@example_of(priorities)
def test_a_snapshot_comes_back_to_the_bit(values: list[float]) -> None:
    before = histogram(values)
    text = json.dumps(before.snapshot())
    assert PriorityHistogram.restore(json.loads(text)) == before
    assert len(json.loads(text)["bins"]) == np.count_nonzero(before.counts)


@pytest.mark.parametrize(
    "bins",
    [
        None,
        [1],
        [[1]],
        [[1, -1]],
        [[1, 0]],
        [[N_BINS, 1]],
        [[2, 1], [1, 1]],
        [[1, 1], [1, 1]],
        [[1, 2**53 + 1]],
        [[1, 1.0]],
    ],
)
def test_broken_bins_are_refused(bins: Any) -> None:
    with pytest.raises(StateError, match="histogram"):
        PriorityHistogram.restore({"version": 1, "bins": bins})
    with pytest.raises(StateError, match="newer"):
        PriorityHistogram.restore({"version": 2, "bins": []})
