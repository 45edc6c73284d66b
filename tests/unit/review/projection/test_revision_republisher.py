"""A compacted review topic ends with the newest revision, even where an older one was written last."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from service.errors import StreamError
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.review.queue.queue import ReviewQueue
from tests.support.review_queue import (
    TOPICS,
    MemoryLog,
    QueueHarness,
    dump_queue,
    dump_rebuilt_queue,
    make_assessment,
    make_review_output,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.log.protocol import Record


def item(name: str, kind: str, p: float, **fields: Any) -> Output:
    return make_review_output(make_assessment(name, p=(0.99, p), labels=("O", f"B-{kind}"), suggested="O", **fields))


LATE = (("flagged", 1), ("update", 3), ("flagged", 2))


def revision(number: int, reason: str, name: str = "late", **fields: Any) -> Output:
    message = make_review_output(
        make_assessment(name, reason=reason, revision=number, update=reason == "update", **fields)
    )
    return Output(message.topic, message.key, message.value, (("ce_type", b"labelwatch.assessment.v1"), ("x", b"\xff")))


def revisions(records: Sequence[Record]) -> list[int]:
    return [json.loads(record.value or b"")["revision"] for record in records if record.topic == TOPICS.review]


def test_a_late_older_revision_does_not_outlive_the_newer_in_the_embedded_log(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    live = QueueHarness(log, ReviewQueue(tmp_path / "live.sqlite"))
    for reason, number in LATE:
        live.write(revision(number, reason))
    assert (live.get_item("late").state, live.get_item("late").revision) == ("closed", 3)
    (record,) = log.read(TOPICS.review, 0, 10)
    written = revision(3, "update")
    assert (record.key, record.value, record.headers) == (written.key, written.value, written.headers)
    assert record.offset == 3
    assert dump_rebuilt_queue(log, TOPICS, tmp_path / "rebuilt.sqlite") == dump_queue(live.queue)
    live.catch_up()
    assert len(log.read(TOPICS.review, 0, 10)) == 1
    live.close()
    log.close()


def test_several_replicas_append_the_newer_again_and_then_stop() -> None:
    log = MemoryLog()
    replicas = [QueueHarness(log, ReviewQueue(":memory:")) for _ in range(3)]
    for replica in replicas:
        replica.catch_up()
    log.append([revision(number, reason) for reason, number in LATE])
    for _ in range(3):
        for replica in replicas:
            replica.catch_up()
    published = revisions(log.records)
    assert published[:3] == [1, 3, 2]
    assert set(published[3:]) == {3}
    assert len(published) <= 3 + len(replicas)
    expected = dump_rebuilt_queue(log.reader(compacted=True), TOPICS)
    assert all(dump_queue(replica.queue) == expected for replica in replicas)
    assert len(revisions(log.records)) == len(published)
    for replica in replicas:
        replica.close()


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b"])), max_size=12), st.integers(1, 4))
@hypothesis_settings(deadline=None, max_examples=25)
def test_in_any_order_the_compacted_log_ends_with_the_newest(arrivals: list[tuple[int, str]], most: int) -> None:
    log = MemoryLog(most=most)
    harness = QueueHarness(log, ReviewQueue(":memory:"))
    for number, name in arrivals:
        log.append([revision(number, ("flagged", "update")[number % 2], name)])
        harness.projector.step()
    harness.catch_up()
    assert dump_rebuilt_queue(log.reader(compacted=True), TOPICS) == dump_queue(harness.queue)
    record_count = len(log.records)
    assert dump_rebuilt_queue(log.reader(most=most), TOPICS) == dump_queue(harness.queue)
    assert len(log.records) == record_count
    harness.close()


def test_an_older_revision_in_another_partition_is_left_alone() -> None:
    log = MemoryLog()
    newer, older = revision(3, "update"), revision(2, "flagged")
    log.append([Output(newer.topic, newer.key, newer.value, newer.headers, 0)])
    log.append([Output(older.topic, older.key, older.value, older.headers, 1)])
    for seed in range(6):
        dump_rebuilt_queue(log.reader(seed=seed), TOPICS)
    assert revisions(log.records) == [3, 2]


class ReadOnly(MemoryLog):
    refused = 0

    def append(self, outputs: Any, *, timeout: float = 30.0) -> None:
        self.refused += 1
        raise StreamError("not allowed to write")


def test_a_projector_that_may_not_write_goes_on_reading() -> None:
    written = MemoryLog()
    written.append([revision(number, reason) for reason, number in LATE])
    log = ReadOnly(records=written.records)
    harness = QueueHarness(log, ReviewQueue(":memory:"))
    harness.catch_up()
    assert (harness.get_item("late").state, log.refused) == ("closed", 1)
    written.append([item("a", "PER", 0.1)])
    harness.catch_up()
    assert (harness.list_ids(), log.refused, harness.projector.error) == (["a"], 1, None)
    harness.close()
