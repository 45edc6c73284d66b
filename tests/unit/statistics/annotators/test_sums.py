"""Sums of an annotator: they merge exactly, stay bounded, and survive JSON."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import NewerStateError, StateError
from service.statistics.annotators.sums import (
    MAX_CONFUSIONS,
    MAX_WEEKS,
    NO_SUMS,
    OTHER_PAIR,
    AnnotatorSums,
    SentenceSums,
    SpanAgreement,
    SpanSums,
    WeekSums,
    merge_annotators,
    to_week,
)

MONDAY = date(2024, 5, 27)


def to_monday(number: int) -> str:
    return (MONDAY + timedelta(weeks=number)).isoformat()


types = st.sampled_from(["PER", "ORG", "LOC"])
agreements = st.builds(
    SpanAgreement,
    st.dictionaries(types, st.builds(SpanSums, st.integers(1, 3), st.integers(1, 3), st.integers(0, 1)), max_size=2),
    st.lists(st.tuples(types, types), max_size=2).map(tuple),
)
sentences = st.lists(st.tuples(agreements, st.integers(-60, 60).map(to_monday)), max_size=12)


def test_sums_of_two_sentences() -> None:
    mixed = SpanAgreement({"PER": SpanSums(2, 1, 1), "ORG": SpanSums(0, 2, 0)}, (("PER", "ORG"), ("O", "ORG")))
    sums = NO_SUMS.add([(mixed, to_monday(0)), (SpanAgreement(), to_monday(0)), (mixed, to_monday(1))])
    assert sums.totals == SentenceSums(3, 2, 2 * 1, 2 * 1 * 5, 2 * 25)
    assert sums.spans == SpanSums(4, 6, 2)
    assert sums.types == {"PER": SpanSums(4, 2, 2), "ORG": SpanSums(0, 4, 0)}
    assert sums.confusions == {("PER", "ORG"): 2, ("O", "ORG"): 2}
    assert sums.weeks == {to_monday(0): WeekSums(2, 2, 3, 1), to_monday(1): WeekSums(1, 2, 3, 1)}


@given(first=sentences, second=sentences, third=sentences)
def test_any_order_of_updates_and_merges_gives_the_same(
    first: list[tuple[SpanAgreement, str]],
    second: list[tuple[SpanAgreement, str]],
    third: list[tuple[SpanAgreement, str]],
) -> None:
    at_once = NO_SUMS.add(first + second + third)
    a, b, c = (NO_SUMS.add(part) for part in (first, second, third))
    assert a.add(second).add(third) == at_once
    assert a.merge(b).merge(c) == at_once
    assert c.merge(a.merge(b)) == at_once
    assert len(at_once.weeks) <= MAX_WEEKS
    merged = merge_annotators([{"kim": a, "lee": b}, {"kim": b}, {"kim": c}])
    assert merged == {"kim": at_once, "lee": b}


@given(added=sentences)
def test_json_gives_the_same_sums(added: list[tuple[SpanAgreement, str]]) -> None:
    sums = NO_SUMS.add(added)
    assert AnnotatorSums.restore(json.loads(sums.to_json())) == sums
    assert NO_SUMS.add(reversed(added)).to_json() == sums.to_json()


def test_pairs_beyond_the_limit_are_counted_together() -> None:
    pairs = tuple((f"T{number}", "O") for number in range(MAX_CONFUSIONS + 3))
    one = SpanAgreement({"T0": SpanSums(1, 0, 0)}, pairs)
    sums = NO_SUMS.add([(one, to_monday(0)), (one, to_monday(0))])
    assert len(sums.confusions) == MAX_CONFUSIONS + 1
    assert sums.confusions[OTHER_PAIR] == 6
    assert sums.confusions["T0", "O"] == 2


def test_weeks_begin_on_monday() -> None:
    assert [to_week(day) for day in ("2024-05-27", "2024-06-02", "2024-06-03", "0001-01-01")] == [
        "2024-05-27",
        "2024-05-27",
        "2024-06-03",
        "0001-01-01",
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sentences": -1}, "`sentences` should be a sum"),
        ({"products": 2**60}, "`products` should be a sum"),
        ({"types": []}, "`types` should be an object of sums"),
        ({"types": {"PER": [1, 2]}}, "`types` should have 3 sums in each entry"),
        ({"types": {"PER": [1, 2, -1]}}, "`types` should be a list of integers"),
        ({"weeks": {"2024-05-28": [1, 1, 1, 1]}}, "'2024-05-28', which is not the Monday"),
        ({"weeks": {"soon": [1, 1, 1, 1]}}, "'soon', which is not the Monday"),
        ({"confusions": {}}, "`confusions` should be a list"),
        ({"confusions": [["PER", "ORG"]]}, "two types and a number"),
        ({"confusions": [[1, "ORG", 2]]}, "name two types"),
        ({"more": 1}, "has unknown fields more"),
    ],
)
def test_a_damaged_record_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(StateError, match=problem):
        AnnotatorSums.restore({**NO_SUMS.snapshot(), **changes})


def test_a_record_that_needs_a_newer_reader_is_refused() -> None:
    with pytest.raises(NewerStateError):
        AnnotatorSums.restore({**NO_SUMS.snapshot(), "version": 9, "min_reader": 9})
