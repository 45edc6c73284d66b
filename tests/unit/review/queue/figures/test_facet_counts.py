"""The number of items that each value of a filter would show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Flag
from service.review.queue.queue import QueueFilter
from tests.support.review_queue import MODEL, decide_item, make_assessment, make_review_output, make_scored_output

if TYPE_CHECKING:
    from service.review.queue.figures.facet_counts import FacetCount
    from tests.support.review_queue import QueueHarness


def to_dict(counts: tuple[FacetCount, ...]) -> dict[str, int]:
    return {count.value: count.items for count in counts}


@pytest.fixture
def filled(harness: QueueHarness) -> QueueHarness:
    """Four items of a dataset, one of them decided, and one of another dataset."""
    twice = make_assessment("twice", p=(0.9, 0.1, 0.8), labels=("B-PER", "B-PER", "O"))
    more = Flag(index=0, token="word0", given="B-PER", suggested="B-LOC", p_given=0.9, p_suggested=0.1, threshold=0.95)
    harness.write(
        *(make_scored_output(f"s{number}", 0.1) for number in range(2)),
        make_scored_output("s2", 0.1, suggested="O"),
        make_review_output(twice.model_copy(update={"flags": (*twice.flags, more)})),
        make_scored_output("s0", 0.1, dataset="other", suggested="B-MISC"),
    )
    harness.write(decide_item(harness.get_item("s0"), "error"))
    return harness


@pytest.mark.parametrize(
    ("state", "given", "suggested"),
    [
        ("open", {"PER": 3}, {"LOC": 1, "O": 1, "ORG": 2}),
        ("decided", {"PER": 1}, {"ORG": 1}),
        ("closed", {}, {}),
        ("all", {"PER": 4}, {"LOC": 1, "O": 1, "ORG": 3}),
    ],
)
def test_counts_are_those_of_the_chosen_state(
    filled: QueueHarness, state: Any, given: dict[str, int], suggested: dict[str, int]
) -> None:
    found = filled.queue.count_facets("default", state)
    assert (to_dict(found.given), to_dict(found.suggested)) == (given, suggested)
    assert to_dict(found.model) == ({MODEL.name: sum(given.values())} if given else {})


def test_a_count_is_the_length_of_the_filtered_list(filled: QueueHarness) -> None:
    found = filled.queue.count_facets(None, "open")
    assert to_dict(found.suggested)["MISC"] == 1
    for name in ("given", "suggested", "model", "kind"):
        for count in getattr(found, name):
            page = filled.queue.get_page(QueueFilter(**{name: count.value}), limit=200)
            assert len(page.items) == count.items, (name, count)
