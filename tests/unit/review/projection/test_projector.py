"""The queue depends on the newest messages only, not on the order and size of the batches they are read in."""

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
from service.errors import StateError, StreamError
from service.log.protocol import Output
from service.log.sqlite.log import SqliteLog
from service.review.messages import build_claim_message
from service.review.projection.control_sample import position_all_controls
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import QueueFilter, ReviewQueue
from tests.support.api_harness import wait_for
from tests.support.review_queue import (
    NOW,
    TOPICS,
    MemoryFollower,
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
    from service.review.projection.summaries import Summaries


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    memory_log = MemoryLog()
    memory_log.append(make_history(sentences=70))
    return memory_log


@pytest.fixture(scope="module")
def expected(log: MemoryLog) -> dict[str, list[str]]:
    return dump_rebuilt_queue(log, TOPICS)


def test_the_history_has_items_in_all_states_and_a_ranker(log: MemoryLog, expected: dict[str, Any]) -> None:
    assert len(expected["items"]) == 70
    assert '"ranker":{' in expected["overview"][1]
    assert all(f'"state":"{state}"' in " ".join(expected["items"]) for state in ("open", "decided", "closed"))


@given(st.integers(0, 10_000), st.integers(1, 40), st.booleans())
@hypothesis_settings(deadline=None, max_examples=8)
def test_replicas_agree_to_the_bit(
    log: MemoryLog, expected: dict[str, object], seed: int, most: int, compacted: bool
) -> None:
    """With other batches, another order of the partitions, or after the log was compacted."""
    assert dump_rebuilt_queue(log.reader(seed=seed, most=most, compacted=compacted), TOPICS) == expected


def test_a_replica_that_read_each_message_as_it_arrived_agrees_too(expected: dict[str, object]) -> None:
    harness = QueueHarness(MemoryLog(), ReviewQueue(":memory:"))
    for output in make_history(sentences=70):
        harness.write(output)
    assert dump_queue(harness.queue) == expected
    harness.close()


def test_over_the_embedded_log(tmp_path: Path, expected: dict[str, object]) -> None:
    log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    harness = QueueHarness(log, ReviewQueue(tmp_path / "live.sqlite"))
    outputs = make_history(sentences=70)
    for start in range(0, len(outputs), 25):
        harness.write(*outputs[start : start + 25])
    assert dump_queue(harness.queue) == expected
    # The file is deleted, and the log holds only the newest record of each key.
    harness.queue.file.path.unlink()
    harness.catch_up()
    assert dump_queue(harness.queue) == expected
    harness.close()
    assert dump_rebuilt_queue(log, TOPICS, tmp_path / "live.sqlite") == expected
    log.close()


# -- the ranker in the queue -------------------------------------------------------------------------------------------


def item(name: str, kind: str, p: float, **fields: Any) -> Output:
    return make_review_output(make_assessment(name, p=(0.99, p), labels=("O", f"B-{kind}"), suggested="O", **fields))


def reviewed_queue(harness: QueueHarness, decisions: int, *, epoch: int = 0) -> None:
    """Reviewers find every LOC wrong and every PER right."""
    harness.write(
        *(item(f"loc{epoch}-{n}", "LOC", 0.3) for n in range(decisions // 2)),
        *(item(f"per{epoch}-{n}", "PER", 0.3) for n in range(decisions - decisions // 2)),
    )
    harness.write(
        *(decide_item(harness.get_item(f"loc{epoch}-{n}"), "error", words=[1]) for n in range(decisions // 2)),
        *(decide_item(harness.get_item(f"per{epoch}-{n}"), "ok") for n in range(decisions - decisions // 2)),
    )


def test_the_ranker_orders_the_queue_after_25_decisions(harness: QueueHarness) -> None:
    harness.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(harness, 24)
    assert harness.list_ids() == ["per", "loc"]
    assert harness.get_item("per").rank == harness.get_item("per").priority
    assert harness.queue.build_overview("default").ranker is None
    harness.write(item("one more", "PER", 0.5), make_decision_output("one more", "ok"))
    assert harness.list_ids() == ["loc", "per"]
    assert harness.get_item("loc").rank != harness.get_item("loc").priority
    overview = harness.queue.build_overview("default")
    assert overview.ranker is not None
    assert overview.ranker["LOC"] > 0 > overview.ranker["PER"]
    assert [(pair.given, pair.suggested) for pair in overview.ranker_pairs] == [("LOC", "O"), ("PER", "O")]
    assert overview.ranker_pairs[0].offset > 0 > overview.ranker_pairs[1].offset
    harness.write(item("late", "LOC", 0.12))
    assert harness.list_ids() == ["loc", "late", "per"]


def test_it_is_off_again_when_decisions_are_withdrawn(harness: QueueHarness) -> None:
    harness.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(harness, 25)
    assert harness.list_ids() == ["loc", "per"]
    harness.write(make_decision_output("loc0-0", "error", withdrawn=True))
    assert harness.list_ids() == ["per", "loc", "loc0-0"]
    assert harness.get_item("loc").rank == harness.get_item("loc").priority


def test_a_dataset_learns_from_its_own_decisions_only(harness: QueueHarness) -> None:
    harness.write(item("per", "PER", 0.10, dataset="other"), item("loc", "LOC", 0.11, dataset="other"))
    reviewed_queue(harness, 30)
    assert harness.list_ids(dataset="other") == ["per", "loc"]


def test_it_can_be_switched_off_and_on(harness: QueueHarness) -> None:
    harness.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(harness, 30)
    assert harness.list_ids() == ["loc", "per"]
    harness.write(make_settings_output(name="default", ranker="off", version=1))
    assert harness.list_ids() == ["per", "loc"]
    harness.write(make_settings_output(name="default", version=0))  # older settings that come late change nothing
    assert harness.list_ids() == ["per", "loc"]
    harness.write(make_settings_output(name="default", version=2))
    assert harness.list_ids() == ["loc", "per"]


def test_it_can_be_reset(harness: QueueHarness) -> None:
    harness.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(harness, 30)
    harness.write(make_settings_output(name="default", ranker_epoch=1, version=1))
    assert harness.list_ids() == ["per", "loc"]
    reviewed_queue(harness, 24, epoch=1)
    assert harness.list_ids() == ["per", "loc"]
    reviewed_queue(harness, 30, epoch=1)
    assert harness.list_ids() == ["loc", "per"]
    # Without the setting, the old decisions count again.
    harness.write(Output(TOPICS.datasets, b"default", None))
    assert harness.list_ids() == ["loc", "per"]


def test_decisions_teach_after_their_item_was_corrected(harness: QueueHarness) -> None:
    harness.write(item("per", "PER", 0.10), item("loc", "LOC", 0.11))
    reviewed_queue(harness, 25)
    harness.write(
        *(make_review_output(make_assessment(f"loc0-{n}", reason="update", revision=1, update=True)) for n in range(12))
    )
    assert harness.list_ids() == ["loc", "per"]


# -- positions of control sentences -------------------------------------------------------------------------------------------


def test_controls_are_positioned_when_no_more_records_arrive_not_after_each_batch(
    harness: QueueHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    positioned: list[str] = []

    def position(db: sqlite3.Connection, dataset: str, summaries: Summaries) -> None:
        positioned.append(dataset)
        position_all_controls(db, dataset, summaries)

    monkeypatch.setattr("service.review.projection.projector.position_all_controls", position)
    monkeypatch.setattr("service.review.projection.projector.POSITION_CONTROLS_INTERVAL_S", 3600.0)
    harness.catch_up()
    harness.projector._positioned_at = time.monotonic()
    harness.write(item("a", "PER", 0.1), item("b", "PER", 0.2))
    assert positioned == []  # there are no controls
    harness.write(item("c", "PER", 0.9, reason="control"))
    assert positioned == ["default"]
    before = harness.get_item("c").rank
    for number in range(5):
        harness.log.append([item(f"more{number}", "PER", 0.5)])
        assert harness.projector.step() == 1
    assert (len(positioned), harness.get_item("c").rank) == (1, before)
    harness.catch_up()
    assert (len(positioned), harness.get_item("c").rank != before) == (2, True)
    harness.write(item("elsewhere", "PER", 0.5, dataset="news"), make_decision_output("a", "ok"))
    assert len(positioned) == 2
    monkeypatch.setattr("service.review.projection.projector.POSITION_CONTROLS_INTERVAL_S", 0.0)
    harness.log.append([item("last", "PER", 0.5)])
    harness.projector.step()
    assert len(positioned) == 3


# -- errors ------------------------------------------------------------------------------------------------------------


def test_records_that_cannot_be_read_are_skipped_and_counted(harness: QueueHarness) -> None:
    broken = [
        Output(topic, key, value)
        for topic in (TOPICS.review, TOPICS.decisions, TOPICS.datasets)
        for key, value in ((b"default/x", b"{"), (None, b"[]"), (b"\xff", b"\xff"), (b"x", b'{"name": 1, "id": 1}'))
    ]
    harness.write(
        *broken, Output(TOPICS.review, None, None), Output(TOPICS.decisions, b"x", None), item("a", "PER", 0.1)
    )
    assert harness.list_ids() == ["a"]
    assert harness.projector.unreadable_records == len(broken)
    assert harness.projector.first_unreadable is not None
    assert harness.projector.first_unreadable.endswith("2@8 can't be read as a message of this topic")


def test_no_record_can_end_the_projector(harness: QueueHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end again at each start, since it reads the topics from their beginning."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("service.review.projection.projector.put_decision", fail)
        harness.write(item("a", "PER", 0.1), make_decision_output("a", "ok"))
    harness.write(item("b", "PER", 0.2))
    assert harness.list_ids() == ["a", "b"]
    assert harness.projector.unreadable_records == 1


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
def test_extreme_numbers_and_times_stop_nothing(harness: QueueHarness, fields: dict[str, Any]) -> None:
    assessment = make_assessment("odd", **fields)
    raw = assessment.model_dump_json(exclude_none=True).encode()
    with_nan = json.dumps({**json.loads(raw), **{k: v for k, v in fields.items() if k != "words"}}).encode()
    harness.write(
        make_review_output(assessment), Output(TOPICS.review, b"default/odd", with_nan), item("a", "PER", 0.1)
    )
    assert sorted(harness.list_ids()) == ["a", "odd"]
    reviewed_queue(harness, 30)
    harness.write(
        make_decision_output("odd", "error", revision=assessment.revision, decided_at="0001-01-01T00:00:00+14:00"),
        build_claim_message(
            TOPICS, Claim(id="a", reviewer="ann", until=datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))))
        ),
        make_settings_output(name="default", version=2**70),
    )
    assert harness.get_item("odd").state == "decided"
    assert harness.get_item("a").claimed_by == "ann"
    assert harness.queue.build_overview("default").counts["open"] == 1
    assert all(
        0 <= entry.rank <= 1 or entry.id == "odd"
        for entry in harness.queue.get_page(QueueFilter(state="all"), limit=200).items
    )


class Failing(MemoryLog):
    """A log whose review topic fails twice."""

    fails = 2

    def follow(self, topic: str) -> Any:
        return FailingFollower(self, super().follow(topic)) if topic == TOPICS.review else super().follow(topic)


class FailingFollower:
    def __init__(self, log: Failing, inner: Follower) -> None:
        self._log, self._inner = log, inner

    def poll(self) -> Sequence[Record]:
        if self._log.fails:
            self._log.fails -= 1
            raise StreamError("the broker does not answer")
        return self._inner.poll()

    @property
    def caught_up(self) -> bool:
        return self._inner.caught_up

    def renew_end(self) -> None:
        self._inner.renew_end()

    def close(self) -> None:
        self._inner.close()


def run(projector: ReviewProjector, queue: ReviewQueue, until: int) -> None:
    """Runs the projector in a thread until the queue has this many items."""
    stop = threading.Event()
    thread = threading.Thread(target=projector.run, args=(stop,))
    thread.start()
    try:
        for _ in range(6_000):
            if projector.caught_up and len(queue.get_page(QueueFilter(), limit=200, now=NOW).items) >= until:
                return
            stop.wait(0.01)
        raise AssertionError(f"the queue never had {until} items")
    finally:
        stop.set()
        thread.join(60)


def test_it_waits_for_a_log_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.review.projection.projector.ERROR_RETRY_INTERVAL_S", 0.01)
    log, queue = Failing(), ReviewQueue(":memory:")
    log.append([make_settings_output(name="default"), item("a", "PER", 0.1), item("b", "PER", 0.2)])
    projector = ReviewProjector(log, TOPICS, queue.file)  # type: ignore[arg-type]  # enough of a log for a projector
    with pytest.raises(StreamError):
        projector.step()
    run(projector, queue, until=2)
    assert projector.error is None
    queue.close()


class Nowhere(MemoryLog):
    def follow(self, topic: str) -> Any:
        raise StreamError(f"the topic {topic} does not exist")


def test_without_its_topics_it_has_an_error_and_is_not_caught_up() -> None:
    queue = ReviewQueue(":memory:")
    projector = ReviewProjector(Nowhere(), TOPICS, queue.file)  # type: ignore[arg-type]  # enough of a log for a projector
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


class Counting(MemoryLog):
    """Counts the followers that are open."""

    open_followers = 0

    def follow(self, topic: str) -> Any:
        self.open_followers += 1
        return CountedFollower(self, topic)


class CountedFollower(MemoryFollower):
    _log: Counting

    def close(self) -> None:
        self._log.open_followers -= 1


def test_without_its_folder_no_follower_stays_open(tmp_path: Path) -> None:
    """It is tried again each second until the folder is back: on Kafka each follower has a thread and a connection."""
    log, queue = Counting(), ReviewQueue(tmp_path / "data" / "queue.sqlite")
    projector = ReviewProjector(log, TOPICS, queue.file)  # type: ignore[arg-type]  # enough of a log for a projector
    projector.step()
    assert log.open_followers == len(projector._handlers)
    (tmp_path / "data").rename(tmp_path / "aside")
    for _ in range(3):
        with pytest.raises(StateError):
            projector.step()
        assert log.open_followers == 0
    (tmp_path / "data").mkdir()
    projector.step()
    assert log.open_followers == len(projector._handlers)
    projector.close()
    assert log.open_followers == 0
    queue.close()


def test_it_is_read_while_it_is_written(tmp_path: Path) -> None:
    log, queue = MemoryLog(most=5), ReviewQueue(tmp_path / "queue.sqlite")
    log.append(make_history(sentences=60))
    harness = QueueHarness(log, queue)
    item_counts: list[int] = []
    stop = threading.Event()

    def read_pages() -> None:
        while not stop.is_set():
            page = queue.get_page(QueueFilter(state="all"), limit=200, now=NOW)
            ranks = [item.rank for item in page.items]
            assert ranks == sorted(ranks)
            item_counts.append(len(ranks))

    readers = [threading.Thread(target=read_pages) for _ in range(3)]
    for reader in readers:
        reader.start()
    harness.catch_up()
    stop.set()
    for reader in readers:
        reader.join(60)
    assert max(item_counts) <= 60
    assert queue.count_items()["open"] > 0
    harness.close()


def test_a_full_disk_stops_the_queue_and_not_the_projector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite fails in the middle of a write; when there is space again, the queue is complete."""
    monkeypatch.setattr("service.review.projection.projector.ERROR_RETRY_INTERVAL_S", 0.01)
    log = SqliteLog(tmp_path / "log.sqlite", TOPICS)
    queue = ReviewQueue(tmp_path / "queue.sqlite")
    projector = ReviewProjector(log, TOPICS, queue.file)
    projector.step()
    pages = queue.file._writer.execute("PRAGMA page_count").fetchone()[0]
    queue.file._writer.execute(f"PRAGMA max_page_count = {pages}")
    log.append(make_history(sentences=70))
    stop = threading.Event()
    thread = threading.Thread(target=projector.run, args=(stop,))
    thread.start()
    try:
        wait_for(lambda: "full" in (projector.error or ""))
        queue.file._writer.execute("PRAGMA max_page_count = 1000000")
        wait_for(lambda: projector.error is None and projector.caught_up)
    finally:
        stop.set()
        thread.join()
    items = dump_queue(queue)["items"]
    assert isinstance(items, list)
    assert len(items) == 70
    queue.close()
    log.close()


def test_below_the_reserve_the_queue_is_not_written_once_it_is_built(tmp_path: Path) -> None:
    log, reason = SqliteLog(tmp_path / "log.sqlite", TOPICS), [""]
    log.append(make_history(sentences=10))
    queue = ReviewQueue(tmp_path / "queue.sqlite")
    reason[0] = "the disk is full"
    projector = ReviewProjector(log, TOPICS, queue.file, get_disk_error=lambda: reason[0])
    while not projector.caught_up:
        projector.step()  # what is read at the start is no more than there was before
    with pytest.raises(StreamError, match="the disk is full"):
        projector.step()
    reason[0] = ""
    projector.step()
    projector.close()
    queue.close()
    log.close()
