"""A platform says that a task is deleted, not which annotations it had: their items close, in whatever order they arrive."""

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


def of_task(sentence_id: str, task: str, *, revision: int = 10, **fields: Any) -> Output:
    return make_review_output(
        make_assessment(sentence_id, revision=revision, meta={"format": "label-studio", "task": task}, **fields)
    )


def task_deletion(task: str, *, revision: int = 20) -> Output:
    return of_task(f"label-studio:task:{task}", task, revision=revision, reason="deleted")


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_deleted_task_closes_its_items_in_any_order(harness: QueueHarness, order: tuple[int, ...]) -> None:
    messages = (of_task("a", "7"), of_task("b", "70"), task_deletion("7"))
    for index in order:
        harness.write(messages[index])
    assert harness.list_ids() == ["b"]
    item = harness.get_item("a")
    assert (item.state, item.closed_by) == ("closed", "deleted")
    assert harness.queue.find_task_item_ids("default", "label-studio", "7") == []
    assert harness.queue.find_task_item_ids("default", "label-studio", "70") == ["b"]


def test_a_rebuilt_queue_shows_the_same(harness: QueueHarness, tmp_path: Path) -> None:
    harness.write(of_task("a", "7"), task_deletion("7"))
    again = QueueHarness(harness.log.reader(seed=3, most=1, compacted=True), ReviewQueue(tmp_path / "again.sqlite"))
    again.catch_up()
    assert again.list_ids(state="closed") == harness.list_ids(state="closed") == ["a"]
    again.close()


def test_the_deletion_of_a_task_is_no_item(harness: QueueHarness) -> None:
    harness.write(of_task("a", "7"), task_deletion("7"), task_deletion("8"))
    assert (
        harness.queue.count_items()
        == harness.queue.build_overview().counts
        == {"open": 0, "adjudication": 0, "decided": 0, "closed": 1}
    )
    assert harness.queue.count_items_by_dataset() == {
        "default": {"open": 0, "adjudication": 0, "decided": 0, "closed": 1}
    }
    assert harness.list_ids(state="all") == ["a"]
    assert harness.queue.get_item("default", "label-studio:task:7") is None
    assert harness.queue.find_task_item_ids("default", "label-studio", "8") == []


def test_a_sentence_with_the_id_of_a_task_is_an_item(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("x:task:1", reason="deleted")))
    assert harness.list_ids(state="closed") == ["x:task:1"]


def test_a_later_annotation_opens_the_item_again(harness: QueueHarness) -> None:
    """A platform that is set up again counts its tasks from 1."""
    harness.write(of_task("a", "7"), task_deletion("7"), of_task("a", "7", revision=21))
    assert harness.list_ids() == ["a"]


def test_items_of_other_datasets_and_platforms_stay_open(harness: QueueHarness) -> None:
    elsewhere = make_review_output(make_assessment("a", dataset="others", meta={"format": "label-studio", "task": "7"}))
    other_platform = make_review_output(make_assessment("b", meta={"format": "argilla", "task": "7"}))
    one_annotation = of_task("label-studio:41", "7", revision=30, reason="deleted")
    harness.write(elsewhere, other_platform, of_task("c", "7", revision=25), one_annotation, task_deletion("7"))
    assert sorted(harness.list_ids()) == ["a", "b", "c"]


def test_a_decided_item_is_closed_and_its_decision_still_counts(harness: QueueHarness) -> None:
    harness.write(of_task("a", "7"))
    harness.write(decide_item(harness.get_item("a"), "error"))
    harness.write(task_deletion("7"))
    assert harness.get_item("a").state == "closed"
    assert harness.queue.count_verdicts_by_dataset()["default"]["error"] == 1


def test_items_deleted_with_their_task_count_like_items_deleted_by_themselves(
    harness: QueueHarness, tmp_path: Path
) -> None:
    def build_queue(*ends: Output) -> QueueHarness:
        harness = QueueHarness(MemoryLog(), ReviewQueue(tmp_path / f"{len(ends)}.sqlite"))
        harness.write(of_task("a", "7"), of_task("b", "7", annotator="zoe"), of_task("c", "8"))
        harness.write(*(of_task(name, "7", reason="control", inclusion_probability=0.5) for name in ("d", "e")))
        harness.write(of_task("f", "8", reason="control", inclusion_probability=0.5))
        harness.write(*(decide_item(harness.get_item(name), "error") for name in "cadf"))
        harness.write(*ends)
        return harness

    by_task = build_queue(task_deletion("7"))
    by_itself = build_queue(*(of_task(name, "7", revision=20, reason="deleted") for name in "abde"))
    overview = by_task.queue.build_overview("default")
    assert overview == by_itself.queue.build_overview("default")
    assert overview.recall is not None
    assert (overview.recall.controls, overview.recall.controls_decided) == (2, 2)
    assert (overview.recall.flagged, overview.recall.flagged_decided) == (2, 2)
    by_task.close()
    by_itself.close()


def test_argilla_calls_its_tasks_records(harness: QueueHarness) -> None:
    about = {"format": "argilla", "record": "rec-1", "question": "entities"}
    ends = make_assessment(
        "argilla:task:rec-1", revision=20, reason="deleted", meta={"format": "argilla", "task": "rec-1"}
    )
    harness.write(make_review_output(make_assessment("argilla:r-1", revision=10, meta=about)), make_review_output(ends))
    assert (harness.list_ids(), harness.list_ids(state="all")) == ([], ["argilla:r-1"])


def test_an_erased_task_deletion_opens_the_items_again(harness: QueueHarness) -> None:
    harness.write(of_task("a", "7"), task_deletion("7"))
    harness.write(Output(TOPICS.review, b"default/label-studio:task:7", None))
    assert harness.list_ids() == ["a"]


def test_a_deleted_control_sentence_hides_no_probabilities(harness: QueueHarness) -> None:
    control = of_task("c", "7", reason="control", inclusion_probability=0.5)
    harness.write(make_settings_output(name="default", control_share=0.5), of_task("a", "8"), control)
    harness.write(make_settings_output(name="default", control_share=0.0, version=2))
    assert harness.get_item("a").blind
    harness.write(task_deletion("7"))
    assert not harness.get_item("a").blind


def test_revisions_include_task_deletions(harness: QueueHarness) -> None:
    harness.write(of_task("a", "7"), task_deletion("7"))
    assert harness.queue.get_revisions("default", ["a", "label-studio:task:7", "x"]) == {
        "a": 10,
        "label-studio:task:7": 20,
    }
