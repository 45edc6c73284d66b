"""A platform says that a task is gone, and not which annotations went with it: their items close, whenever they come."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from service.review.queue import Queue
from service.stream.base import Output
from tests.review_desk import TOPICS, Desk, assessment, decided, review

if TYPE_CHECKING:
    from pathlib import Path


def of_task(identity: str, task: str, *, revision: int = 10, **fields: Any) -> Output:
    return review(assessment(identity, revision=revision, meta={"format": "label-studio", "task": task}, **fields))


def gone(task: str, *, revision: int = 20) -> Output:
    return of_task(f"label-studio:task:{task}", task, revision=revision, reason="deleted")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_they_come(desk: Desk, order: tuple[int, ...]) -> None:
    messages = (of_task("a", "7"), of_task("b", "70"), gone("7"))
    for place in order:
        desk.write(messages[place])
    assert desk.ids() == ["b"]
    item = desk.item("a")
    assert (item.state, item.closed_by) == ("closed", "deleted")
    assert desk.queue.of_task("default", "label-studio", "7") == []
    assert desk.queue.of_task("default", "label-studio", "70") == ["b"]


def test_a_rebuilt_queue_says_the_same(desk: Desk, tmp_path: Path) -> None:
    desk.write(of_task("a", "7"), gone("7"))
    again = Desk(desk.stream.reader(seed=3, most=1, compacted=True), Queue(tmp_path / "again.sqlite"))
    again.read()
    assert again.ids(state="closed") == desk.ids(state="closed") == ["a", "label-studio:task:7"]
    again.close()


def test_what_is_annotated_later_opens_again(desk: Desk) -> None:
    """Where a platform was set up anew, its numbers begin again."""
    desk.write(of_task("a", "7"), gone("7"), of_task("a", "7", revision=21))
    assert desk.ids() == ["a"]


def test_other_datasets_platforms_and_deletions_are_not_meant(desk: Desk) -> None:
    elsewhere = review(assessment("a", dataset="others", meta={"format": "label-studio", "task": "7"}))
    other_platform = review(assessment("b", meta={"format": "argilla", "task": "7"}))
    one_annotation = of_task("label-studio:41", "7", revision=30, reason="deleted")
    desk.write(elsewhere, other_platform, of_task("c", "7", revision=25), one_annotation, gone("7"))
    assert sorted(desk.ids()) == ["a", "b", "c"]


def test_what_was_decided_is_closed_and_still_counts(desk: Desk) -> None:
    desk.write(of_task("a", "7"))
    desk.write(decided(desk.item("a"), "error"))
    desk.write(gone("7"))
    assert desk.item("a").state == "closed"
    assert desk.queue.verdicts_by_dataset()["default"]["error"] == 1


def test_an_erased_message_opens_them_again(desk: Desk) -> None:
    desk.write(of_task("a", "7"), gone("7"))
    desk.write(Output(TOPICS.review, b"default/label-studio:task:7", None))
    assert desk.ids() == ["a"]


def test_revisions_of_what_is_known(desk: Desk) -> None:
    desk.write(of_task("a", "7"), gone("7"))
    assert desk.queue.revisions("default", ["a", "label-studio:task:7", "x"]) == {"a": 10, "label-studio:task:7": 20}
