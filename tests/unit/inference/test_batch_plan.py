from __future__ import annotations

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from service.inference.batch_plan import plan_batches

calm = settings(deadline=None, max_examples=60)

lengths_of = st.lists(st.integers(1, 700), max_size=60)


@calm
@given(lengths_of, st.integers(1, 600), st.integers(1, 20), st.integers(0, 50))
def test_every_sequence_exactly_once_and_nothing_over_the_limits(
    lengths: list[int], budget: int, most: int, run_cost: int
) -> None:
    batches = plan_batches(lengths, batch_tokens=budget, max_batch=most, run_cost=run_cost)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= most
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


@calm
@given(lengths_of)
def test_batches_hold_neighbours_in_length(lengths: list[int]) -> None:
    batches = plan_batches(lengths)
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(lengths)


@calm
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=9), st.integers(20, 100), st.integers(1, 5), st.integers(0, 20)
)
def test_no_other_cut_of_the_sorted_sequences_is_cheaper(lengths: list[int], budget: int, most: int, cost: int) -> None:
    def price(batches: list[list[int]]) -> int:
        return sum(len(b) * max(b) + cost for b in batches)

    ordered = sorted(lengths)
    allowed = []
    for marks in product([False, True], repeat=len(ordered) - 1):
        edges = [0, *(i + 1 for i, mark in enumerate(marks) if mark), len(ordered)]
        batches = [ordered[a:b] for a, b in pairwise(edges)]
        if all(len(b) == 1 or (len(b) <= most and len(b) * b[-1] <= budget) for b in batches):
            allowed.append(price(batches))
    plan = plan_batches(lengths, batch_tokens=budget, max_batch=most, run_cost=cost)
    assert price([[lengths[i] for i in batch] for batch in plan]) == min(allowed)


def test_equal_lengths_fill_whole_batches() -> None:
    assert [len(batch) for batch in plan_batches([20] * 48, batch_tokens=512, max_batch=16)] == [16, 16, 16]


def test_a_sequence_over_the_budget_goes_alone() -> None:
    assert plan_batches([10, 900, 10], batch_tokens=512) == [[0, 2], [1]]


def test_nothing_to_plan() -> None:
    assert plan_batches([]) == []
