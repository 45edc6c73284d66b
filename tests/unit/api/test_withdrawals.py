"""A withdrawal is refused only if the queue was complete while it was searched for the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.contracts import BelowPolicy, DatasetSettings
from tests.support.api_harness import TOPICS, wait_for
from tests.support.command_harness import make_sentences
from tests.support.review_queue import make_decision_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.review.messages import DecisionKey
    from tests.support.api_harness import ApiHarness

DECISION = {"dataset": "news", "id": "0-0", "reviewer": "anna", "verdict": "ok"}


@pytest.fixture
def full(harness: ApiHarness) -> ApiHarness:
    harness.worker._datasets.put(DatasetSettings(name="news", flag_policy=BelowPolicy(kind="below", cut=2.0)))
    harness.send(*make_sentences(3, dataset="news"))
    return harness


def append_decision(harness: ApiHarness) -> None:
    """As another process does."""
    harness.log.append([make_decision_output("0-0", "ok", topics=TOPICS, dataset="news", reviewer="anna")])


def withdraw(harness: ApiHarness) -> tuple[int, str | None]:
    """The status, and the field that an error is about."""
    response = harness.client.post("/v1/decisions", json=DECISION | {"withdrawn": True})
    return response.status_code, response.json().get("field")


def search_with(harness: ApiHarness, patch: pytest.MonkeyPatch, *searches: Callable[[DecisionKey], bool]) -> list[int]:
    """Each search of the queue for a decision is the next one of these. Returns a list of how many are left."""
    left = list(searches)
    counts = [len(left)]

    def search(key: DecisionKey) -> bool:
        counts[0] -= 1
        return left.pop(0)(key)

    patch.setattr(harness.backend.queue, "has_decision", search)
    return counts


def test_a_decision_of_a_queue_that_is_built_again_during_the_search_is_withdrawn(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search finds the file empty, and the queue is complete again before the search has returned."""
    has_decision, file = full.backend.queue.has_decision, full.backend.queue.file
    clear = file.clear
    found_in_empty_file: list[bool] = []

    def search_too_early(key: DecisionKey) -> bool:
        found = has_decision(key)
        append_decision(full)
        return found

    def search_during_rebuild(key: DecisionKey) -> bool:
        def clear_and_search() -> None:
            clear()
            found_in_empty_file.append(has_decision(key))

        monkeypatch.setattr(file, "clear", clear_and_search)
        file.path.unlink()
        wait_for(lambda: bool(found_in_empty_file) and full.projector.caught_up and has_decision(key))
        return found_in_empty_file[0]

    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 60.0)
    left = search_with(full, monkeypatch, search_too_early, search_during_rebuild)
    with full.run_projector():
        assert withdraw(full) == (202, None)
    assert (left, found_in_empty_file) == ([0], [False])


def test_a_decision_that_the_queue_reads_after_the_search_is_withdrawn(
    full: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue is too late, and is there before the search has returned."""
    has_decision = full.backend.queue.has_decision

    def search_and_project(key: DecisionKey) -> bool:
        found = has_decision(key)
        full.project()
        return found

    append_decision(full)
    monkeypatch.setattr("service.api.queue_end.QUEUE_TIMEOUT_S", 0.0)
    search_with(full, monkeypatch, has_decision, search_and_project)
    assert withdraw(full) == (202, None)
