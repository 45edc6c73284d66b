"""The queue is a function of the newest messages: whatever the order and size of the batches they were read in."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from service.contracts import Claim
from service.errors import StreamError
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.review.messages import build_claim_message
from service.review.projection.control_sample import position_all_controls
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import QueueFilter, ReviewQueue
from tests.support.review_queue import (
    NOW,
    TOPICS,
    MemoryLog,
    QueueHarness,
    decide_item,
    dump_queue,
    dump_rebuilt_queue,
    make_assessment,
    make_decision_output,
    make_history,
    make_review_output,
    make_settings_output,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

    from service.log.protocol import Follower, Record


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    made = MemoryLog()
    made.append(make_history(sentences=70))
    return made


@pytest.fixture(scope="module")
def expected(log: MemoryLog) -> dict[str, object]:
    return dump_rebuilt_queue(log, TOPICS)


def test_the_story_is_worth_reading(log: MemoryLog, expected: dict[str, Any]) -> None:
    assert len(expected["items"]) == 70
    assert '"ranker":{' in expected["overview"][1]
    assert all(f'"state":"{state}"' in " ".join(expected["items"]) for state in ("open", "decided", "closed"))


@given(st.integers(0, 10_000), st.integers(1, 40), st.booleans())
@hypothesis_settings(deadline=None, max_examples=8)
def test_replicas_agree_to_the_bit(
    log: MemoryLog, expected: dict[str, object], seed: int, most: int, compacted: bool
) -> None:
    """Other batches, another interleaving of the partitions, or read after the log was compacted."""
    assert dump_rebuilt_queue(log.reader(seed=seed, most=most, compacted=compacted), TOPICS) == expected


def test_a_replica_that_saw_everything_as_it_came_agrees_too(expected: dict[str, object]) -> None:
    desk = QueueHarness(MemoryLog(), ReviewQueue(":memory:"))
    for output in make_history(sentences=70):
        desk.write(output)
    assert dump_queue(desk.queue) == expected
    desk.close()


def test_over_the_embedded_log(tmp_path: Path, expected: dict[str, object]) -> None:
    stream = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    desk = QueueHarness(stream, ReviewQueue(tmp_path / "live.sqlite"))
    outputs = make_history(sentences=70)
    for start in range(0, len(outputs), 25):
        desk.write(*outputs[start : start + 25])
    assert dump_queue(desk.queue) == expected
    # The file is gone, and the log has kept only the newest of each key.
    desk.queue.file.path.unlink()
    desk.catch_up()
    assert dump_queue(desk.queue) == expected
    desk.close()
    assert dump_rebuilt_queue(stream, TOPICS, tmp_path / "live.sqlite") == expected
    stream.close()


# -- revisions that come late -------------------------------------------------------------------------------------------


LATE = (("flagged", 1), ("update", 3), ("flagged", 2))


def revision(number: int, reason: str, name: str = "late", **fields: Any) -> Output:
    made = make_review_output(
        make_assessment(name, reason=reason, revision=number, update=reason == "update", **fields)
    )
    return Output(made.topic, made.key, made.value, (("ce_type", b"labelwatch.assessment.v1"), ("x", b"\xff")))


def revisions(records: Sequence[Record]) -> list[int]:
    return [json.loads(record.value or b"")["revision"] for record in records if record.topic == TOPICS.review]


def test_a_late_older_revision_does_not_outlive_the_newer_in_the_embedded_log(tmp_path: Path) -> None:
    stream = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    live = QueueHarness(stream, ReviewQueue(tmp_path / "live.sqlite"))
    for reason, number in LATE:
        live.write(revision(number, reason))
    assert (live.get_item("late").state, live.get_item("late").revision) == ("closed", 3)
    (kept,) = stream.read(TOPICS.review, 0, 10)
    written = revision(3, "update")
    assert (kept.key, kept.value, kept.headers) == (written.key, written.value, written.headers)
    assert kept.offset == 3
    assert dump_rebuilt_queue(stream, TOPICS, tmp_path / "rebuilt.sqlite") == dump_queue(live.queue)
    live.catch_up()
    assert len(stream.read(TOPICS.review, 0, 10)) == 1
    live.close()
    stream.close()


def test_several_replicas_write_the_newer_again_and_then_rest() -> None:
    log = MemoryLog()
    replicas = [QueueHarness(log, ReviewQueue(":memory:")) for _ in range(3)]
    for replica in replicas:
        replica.catch_up()
    log.append([revision(number, reason) for reason, number in LATE])
    for _ in range(3):
        for replica in replicas:
            replica.catch_up()
    found = revisions(log.records)
    assert found[:3] == [1, 3, 2]
    assert set(found[3:]) == {3}
    assert len(found) <= 3 + len(replicas)
    expected = dump_rebuilt_queue(log.reader(compacted=True), TOPICS)
    assert all(dump_queue(replica.queue) == expected for replica in replicas)
    assert len(revisions(log.records)) == len(found)
    for replica in replicas:
        replica.close()


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b"])), max_size=12), st.integers(1, 4))
@hypothesis_settings(deadline=None, max_examples=25)
def test_however_late_the_compacted_log_ends_with_the_newest(came: list[tuple[int, str]], most: int) -> None:
    log = MemoryLog(most=most)
    desk = QueueHarness(log, ReviewQueue(":memory:"))
    for number, name in came:
        log.append([revision(number, ("flagged", "update")[number % 2], name)])
        desk.projector.step()
    desk.catch_up()
    assert dump_rebuilt_queue(log.reader(compacted=True), TOPICS) == dump_queue(desk.queue)
    settled = len(log.records)
    assert dump_rebuilt_queue(log.reader(most=most), TOPICS) == dump_queue(desk.queue)
    assert len(log.records) == settled
    desk.close()


def test_an_older_revision_in_another_partition_takes_nothing_away() -> None:
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


def test_who_may_not_write_goes_on_reading() -> None:
    written = MemoryLog()
    written.append([revision(number, reason) for reason, number in LATE])
    log = ReadOnly(records=written.records)
    desk = QueueHarness(log, ReviewQueue(":memory:"))
    desk.catch_up()
    assert (desk.get_item("late").state, log.refused) == ("closed", 1)
    written.append([item("a", "PER", 0.1)])
    desk.catch_up()
    assert (desk.list_ids(), log.refused, desk.projector.error) == (["a"], 1, None)
    desk.close()


# -- the ranker in the queue -------------------------------------------------------------------------------------------


def item(name: str, kind: str, p: float, **fields: Any) -> Output:
    return make_review_output(make_assessment(name, p=(0.99, p), labels=("O", f"B-{kind}"), suggested="O", **fields))


def reviewed_queue(desk: QueueHarness, decisions: int, *, epoch: int = 0) -> None:
    """LOC is wrong whenever somebody looks, PER never."""
    desk.write(
        *(item(f"loc{epoch}-{n}", "LOC", 0.3) for n in range(decisions // 2)),
        *(item(f"per{epoch}-{n}", "PER", 0.3) for n in range(decisions - decisions // 2)),
    )
    desk.write(
        *(decide_item(desk.get_item(f"loc{epoch}-{n}"), "error", words=[1]) for n in range(decisions // 2)),
        *(decide_item(desk.get_item(f"per{epoch}-{n}"), "ok") for n in range(decisions - decisions // 2)),
    )


def test_the_ranker_orders_the_queue_after_25_decisions(desk: QueueHarness) -> None:
    desk.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(desk, 24)
    assert desk.list_ids() == ["per", "loc"]
    assert desk.get_item("per").rank == desk.get_item("per").priority
    assert desk.queue.build_overview("default").ranker is None
    desk.write(item("one more", "PER", 0.5), make_decision_output("one more", "ok"))
    assert desk.list_ids() == ["loc", "per"]
    assert desk.get_item("loc").rank != desk.get_item("loc").priority
    offsets = desk.queue.build_overview("default").ranker
    assert offsets is not None
    assert offsets["LOC"] > 0 > offsets["PER"]
    desk.write(item("late", "LOC", 0.12))
    assert desk.list_ids() == ["loc", "late", "per"]


def test_it_is_off_again_where_decisions_are_taken_back(desk: QueueHarness) -> None:
    desk.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(desk, 25)
    assert desk.list_ids() == ["loc", "per"]
    desk.write(make_decision_output("loc0-0", "error", withdrawn=True))
    assert desk.list_ids() == ["per", "loc", "loc0-0"]
    assert desk.get_item("loc").rank == desk.get_item("loc").priority


def test_a_dataset_learns_from_its_own_decisions_only(desk: QueueHarness) -> None:
    desk.write(item("per", "PER", 0.10, dataset="other"), item("loc", "LOC", 0.11, dataset="other"))
    reviewed_queue(desk, 30)
    assert desk.list_ids(dataset="other") == ["per", "loc"]


def test_it_can_be_switched_off_and_on(desk: QueueHarness) -> None:
    desk.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(desk, 30)
    assert desk.list_ids() == ["loc", "per"]
    desk.write(make_settings_output(name="default", ranker="off", version=1))
    assert desk.list_ids() == ["per", "loc"]
    desk.write(make_settings_output(name="default", version=0))  # older settings that come late change nothing
    assert desk.list_ids() == ["per", "loc"]
    desk.write(make_settings_output(name="default", version=2))
    assert desk.list_ids() == ["loc", "per"]


def test_it_can_be_reset(desk: QueueHarness) -> None:
    desk.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(desk, 30)
    desk.write(make_settings_output(name="default", ranker_epoch=1, version=1))
    assert desk.list_ids() == ["per", "loc"]
    reviewed_queue(desk, 24, epoch=1)
    assert desk.list_ids() == ["per", "loc"]
    reviewed_queue(desk, 30, epoch=1)
    assert desk.list_ids() == ["loc", "per"]
    # The setting taken back, the old decisions count again.
    desk.write(Output(TOPICS.datasets, b"default", None))
    assert desk.list_ids() == ["loc", "per"]


def test_decisions_teach_after_their_item_was_corrected(desk: QueueHarness) -> None:
    desk.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(desk, 25)
    desk.write(
        *(make_review_output(make_assessment(f"loc0-{n}", reason="update", revision=1, update=True)) for n in range(12))
    )
    assert desk.list_ids() == ["loc", "per"]


# -- the places of controls -------------------------------------------------------------------------------------------


def test_controls_are_placed_when_nothing_more_comes_not_after_each_batch(
    desk: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed: list[str] = []
    real = position_all_controls

    def place(db: sqlite3.Connection, dataset: str) -> None:
        placed.append(dataset)
        real(db, dataset)

    monkeypatch.setattr("service.review.projection.projector.position_all_controls", place)
    monkeypatch.setattr("service.review.projection.projector.POSITION_CONTROLS_INTERVAL_S", 3600.0)
    desk.catch_up()
    desk.projector._positioned_at = time.monotonic()
    desk.write(item("a", "PER", 0.1), item("b", "PER", 0.2))
    assert placed == []  # there are no controls
    desk.write(item("c", "PER", 0.9, reason="control"))
    assert placed == ["default"]
    before = desk.get_item("c").rank
    for number in range(5):
        desk.stream.append([item(f"more{number}", "PER", 0.5)])
        assert desk.projector.step() == 1
    assert (len(placed), desk.get_item("c").rank) == (1, before)
    desk.catch_up()
    assert (len(placed), desk.get_item("c").rank != before) == (2, True)
    desk.write(item("elsewhere", "PER", 0.5, dataset="news"), make_decision_output("a", "ok"))
    assert len(placed) == 2
    monkeypatch.setattr("service.review.projection.projector.POSITION_CONTROLS_INTERVAL_S", 0.0)  # its time has come
    desk.stream.append([item("last", "PER", 0.5)])
    desk.projector.step()
    assert len(placed) == 3


# -- errors ------------------------------------------------------------------------------------------------------------


def test_what_is_no_message_is_passed_over(desk: QueueHarness) -> None:
    broken = [
        Output(topic, key, value)
        for topic in (TOPICS.review, TOPICS.decisions, TOPICS.datasets)
        for key, value in ((b"default/x", b"{"), (None, b"[]"), (b"\xff", b"\xff"), (b"x", b'{"name": 1, "id": 1}'))
    ]
    desk.write(*broken, Output(TOPICS.review, None, None), Output(TOPICS.decisions, b"x", None), item("a", "PER", 0.1))
    assert desk.list_ids() == ["a"]
    assert desk.projector.unreadable_records == len(broken)


@pytest.mark.parametrize(
    "fields",
    [
        {"priority": float("nan"), "score": float("inf")},
        {"weights": {"O": float("nan"), "B-PER": float("-inf")}},
        {"priority": -3.0, "score": -1e308},
        {"scored_at": "0001-01-01T00:00:00+14:00"},
        {"annotated_at": "9999-12-31T23:59:59-14:00"},
        {"revision": 2**63 - 1},
        {"words": ()},
    ],
)
def test_odd_numbers_and_times_end_nothing(desk: QueueHarness, fields: dict[str, Any]) -> None:
    said = make_assessment("odd", **fields)
    raw = said.model_dump_json(exclude_none=True).encode()
    with_nan = json.dumps({**json.loads(raw), **{k: v for k, v in fields.items() if k != "words"}}).encode()
    desk.write(make_review_output(said), Output(TOPICS.review, b"default/odd", with_nan), item("a", "PER", 0.1))
    assert sorted(desk.list_ids()) == ["a", "odd"]
    reviewed_queue(desk, 30)
    desk.write(
        make_decision_output("odd", "error", revision=said.revision, decided_at="0001-01-01T00:00:00+14:00"),
        build_claim_message(
            TOPICS, Claim(id="a", reviewer="ann", until=datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))))
        ),
        make_settings_output(name="default", version=2**70),
    )
    assert desk.get_item("odd").state == "decided"
    assert desk.get_item("a").claimed_by == "ann"
    assert desk.queue.build_overview("default").counts["open"] == 1
    assert all(
        0 <= one.rank <= 1 or one.id == "odd" for one in desk.queue.get_page(QueueFilter(state="all"), limit=200).items
    )


class Failing(MemoryLog):
    """A log whose review topic fails now and then."""

    fails = 2

    def follow(self, topic: str) -> Any:
        return FailingFollower(self, super().follow(topic)) if topic == TOPICS.review else super().follow(topic)


class FailingFollower:
    def __init__(self, log: Failing, inner: Follower) -> None:
        self._log, self._inner = log, inner

    def poll(self) -> Sequence[Record]:
        if self._log.fails:
            self._log.fails -= 1
            raise StreamError("the broker is away")
        return self._inner.poll()

    @property
    def caught_up(self) -> bool:
        return self._inner.caught_up

    def close(self) -> None:
        self._inner.close()


def run(projector: ReviewProjector, queue: ReviewQueue, until: int) -> None:
    """Runs it in a thread until so many items are in the queue."""
    stop = threading.Event()
    thread = threading.Thread(target=projector.run, args=(stop,))
    thread.start()
    try:
        for _ in range(6_000):
            if projector.caught_up and len(queue.get_page(QueueFilter(), limit=200, now=NOW).items) >= until:
                return
            stop.wait(0.01)
        raise AssertionError("it never got there")
    finally:
        stop.set()
        thread.join(60)


def test_it_waits_for_a_log_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.review.projection.projector.ERROR_RETRY_INTERVAL_S", 0.01)
    log, queue = Failing(), ReviewQueue(":memory:")
    log.append([make_settings_output(name="default"), item("a", "PER", 0.1), item("b", "PER", 0.2)])
    projector = ReviewProjector(log, TOPICS, queue.file)  # type: ignore[arg-type]  # it follows, and does no more
    with pytest.raises(StreamError):
        projector.step()
    run(projector, queue, until=2)
    assert projector.error is None
    queue.close()


class Nowhere(MemoryLog):
    def follow(self, topic: str) -> Any:
        raise StreamError(f"the topic {topic} does not exist")


def test_without_its_topics_it_says_so_and_is_not_caught_up() -> None:
    queue = ReviewQueue(":memory:")
    projector = ReviewProjector(Nowhere(), TOPICS, queue.file)  # type: ignore[arg-type]  # it follows, and does no more
    stop = threading.Event()
    thread = threading.Thread(target=projector.run, args=(stop,))
    thread.start()
    for _ in range(6_000):
        if projector.error:
            break
        stop.wait(0.01)
    assert "does not exist" in (projector.error or "")
    assert not projector.caught_up
    stop.set()
    thread.join(60)
    queue.close()


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    log, queue = MemoryLog(most=5), ReviewQueue(tmp_path / "queue.sqlite")
    log.append(make_history(sentences=60))
    desk = QueueHarness(log, queue)
    seen: list[int] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            page = queue.get_page(QueueFilter(state="all"), limit=200, now=NOW)
            ranks = [item.rank for item in page.items]
            assert ranks == sorted(ranks)
            seen.append(len(ranks))

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    desk.catch_up()
    stop.set()
    for reader in readers:
        reader.join(60)
    assert max(seen) <= 60
    assert queue.count_items()["open"] > 0
    desk.close()
