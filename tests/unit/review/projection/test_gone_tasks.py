"""A platform says that a task is gone, and not which annotations went with it: their items close, whenever they come."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest

from service.log.protocol import Output
from service.review.queue.queue import ReviewQueue
from tests.support.review_queue import (
    TOPICS,
    MemoryLog,
    QueueHarness,
    decide_item,
    make_assessment,
    make_review_output,
    make_settings_output,
)

if TYPE_CHECKING:
    from pathlib import Path


def of_task(identity: str, task: str, *, revision: int = 10, **fields: Any) -> Output:
    return make_review_output(
        make_assessment(identity, revision=revision, meta={"format": "label-studio", "task": task}, **fields)
    )


def gone(task: str, *, revision: int = 20) -> Output:
    return of_task(f"label-studio:task:{task}", task, revision=revision, reason="deleted")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_they_come(desk: QueueHarness, order: tuple[int, ...]) -> None:
    messages = (of_task("a", "7"), of_task("b", "70"), gone("7"))
    for place in order:
        desk.write(messages[place])
    assert desk.list_ids() == ["b"]
    item = desk.get_item("a")
    assert (item.state, item.closed_by) == ("closed", "deleted")
    assert desk.queue.find_task_item_ids("default", "label-studio", "7") == []
    assert desk.queue.find_task_item_ids("default", "label-studio", "70") == ["b"]


def test_a_rebuilt_queue_says_the_same(desk: QueueHarness, tmp_path: Path) -> None:
    desk.write(of_task("a", "7"), gone("7"))
    again = QueueHarness(desk.stream.reader(seed=3, most=1, compacted=True), ReviewQueue(tmp_path / "again.sqlite"))
    again.catch_up()
    assert again.list_ids(state="closed") == desk.list_ids(state="closed") == ["a"]
    again.close()


def test_that_a_task_is_gone_is_no_item(desk: QueueHarness) -> None:
    desk.write(of_task("a", "7"), gone("7"), gone("8"))
    assert desk.queue.count_items() == desk.queue.build_overview().counts == {"open": 0, "decided": 0, "closed": 1}
    assert desk.queue.count_items_by_dataset() == {"default": {"open": 0, "decided": 0, "closed": 1}}
    assert desk.list_ids(state="all") == ["a"]
    assert desk.queue.get_item("default", "label-studio:task:7") is None
    assert desk.queue.find_task_item_ids("default", "label-studio", "8") == []


def test_a_sentence_that_is_only_called_like_a_task_is_an_item(desk: QueueHarness) -> None:
    desk.write(make_review_output(make_assessment("x:task:1", reason="deleted")))
    assert desk.list_ids(state="closed") == ["x:task:1"]


def test_what_is_annotated_later_opens_again(desk: QueueHarness) -> None:
    """Where a platform was set up anew, its numbers begin again."""
    desk.write(of_task("a", "7"), gone("7"), of_task("a", "7", revision=21))
    assert desk.list_ids() == ["a"]


def test_other_datasets_platforms_and_deletions_are_not_meant(desk: QueueHarness) -> None:
    elsewhere = make_review_output(make_assessment("a", dataset="others", meta={"format": "label-studio", "task": "7"}))
    other_platform = make_review_output(make_assessment("b", meta={"format": "argilla", "task": "7"}))
    one_annotation = of_task("label-studio:41", "7", revision=30, reason="deleted")
    desk.write(elsewhere, other_platform, of_task("c", "7", revision=25), one_annotation, gone("7"))
    assert sorted(desk.list_ids()) == ["a", "b", "c"]


def test_what_was_decided_is_closed_and_still_counts(desk: QueueHarness) -> None:
    desk.write(of_task("a", "7"))
    desk.write(decide_item(desk.get_item("a"), "error"))
    desk.write(gone("7"))
    assert desk.get_item("a").state == "closed"
    assert desk.queue.count_verdicts_by_dataset()["default"]["error"] == 1


def test_what_goes_with_its_task_counts_as_what_is_deleted_by_itself(desk: QueueHarness, tmp_path: Path) -> None:
    def sent(*ends: Output) -> QueueHarness:
        made = QueueHarness(MemoryLog(), ReviewQueue(tmp_path / f"{len(ends)}.sqlite"))
        made.write(of_task("a", "7"), of_task("b", "7", annotator="zoe"), of_task("c", "8"))
        made.write(*(of_task(name, "7", reason="control", inclusion_probability=0.5) for name in ("d", "e")))
        made.write(of_task("f", "8", reason="control", inclusion_probability=0.5))
        made.write(*(decide_item(made.get_item(name), "error") for name in "cadf"))
        made.write(*ends)
        return made

    by_task = sent(gone("7"))
    by_itself = sent(*(of_task(name, "7", revision=20, reason="deleted") for name in "abde"))
    told = by_task.queue.build_overview("default")
    assert told == by_itself.queue.build_overview("default")
    assert told.recall is not None
    assert (told.recall.controls, told.recall.controls_decided) == (2, 2)
    assert (told.recall.flagged, told.recall.flagged_decided) == (2, 2)
    by_task.close()
    by_itself.close()


def test_argilla_calls_its_tasks_records(desk: QueueHarness) -> None:
    about = {"format": "argilla", "record": "rec-1", "question": "entities"}
    ends = make_assessment(
        "argilla:task:rec-1", revision=20, reason="deleted", meta={"format": "argilla", "task": "rec-1"}
    )
    desk.write(make_review_output(make_assessment("argilla:r-1", revision=10, meta=about)), make_review_output(ends))
    assert (desk.list_ids(), desk.list_ids(state="all")) == ([], ["argilla:r-1"])


def test_an_erased_message_opens_them_again(desk: QueueHarness) -> None:
    desk.write(of_task("a", "7"), gone("7"))
    desk.write(Output(TOPICS.review, b"default/label-studio:task:7", None))
    assert desk.list_ids() == ["a"]


def test_a_control_that_is_gone_makes_nobody_blind(desk: QueueHarness) -> None:
    control = of_task("c", "7", reason="control", inclusion_probability=0.5)
    desk.write(make_settings_output(name="default", control_share=0.5), of_task("a", "8"), control)
    desk.write(make_settings_output(name="default", control_share=0.0, version=2))
    assert desk.get_item("a").blind
    desk.write(gone("7"))
    assert not desk.get_item("a").blind


def test_revisions_of_what_is_known(desk: QueueHarness) -> None:
    desk.write(of_task("a", "7"), gone("7"))
    assert desk.queue.get_revisions("default", ["a", "label-studio:task:7", "x"]) == {
        "a": 10,
        "label-studio:task:7": 20,
    }
