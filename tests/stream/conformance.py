"""The suite that every log passes: `LogConformance` for `Log`, `SessionConformance` for `WorkerSession`.

`WaitingConformance` runs whole workers: sentences of a dataset that no model fits are stored and judged later. A test class
inherits all three and adds the fixture `log`.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pytest

from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.log.protocol import BatchResult, CommitRefused, Output, RecordBatch, ReleasedRecords, VersionConflict
from service.log.waiting_records import read_waiting_records
from service.stream.state.reader import read_state
from tests.stream.steps import (
    POLL_TIMEOUT_S,
    iter_records,
    list_values,
    make_batch_result,
    make_sentence_outputs,
    poll_all,
    poll_batch,
    read_records,
    read_topic,
    wait_for_assignment,
    wait_until,
)
from tests.support.tiny_models import make_model
from tests.support.waiting_datasets import (
    LABEL_MAP,
    make_drug_sentences,
    parse_assessments,
    put_settings,
    run_worker,
    send,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.log.protocol import Follower, Log, Record, WorkerSession
    from service.log.topics import Topics

HEADERS = (
    ("content-type", b"application/json"),
    ("bytes", bytes(range(256))),
    ("twice", b"1"),
    ("twice", b""),
    ("ünï", b"x"),
)


class LogUnderTest(Protocol):
    topics: Topics
    partitions: int

    def open_session(self) -> WorkerSession:
        """A worker's session. It is closed when the test ends."""

    def open_log(self) -> Log:
        """The log as another process opens it. It is closed when the test ends."""

    def make_unwritable_output(self) -> Output:
        """An output that the log can't write."""

    def crash_arguments(self) -> Sequence[str]:
        """Arguments with which `crashing_worker.py` opens this log in a process of its own."""


class LogConformance:
    def test_a_follower_reads_from_the_beginning_and_continues(self, log: LogUnderTest) -> None:
        writer = log.open_log()
        writer.append([Output(log.topics.datasets, b"a", b"1"), Output(log.topics.datasets, b"b", b"2", HEADERS)])
        follower = writer.follow(log.topics.datasets)
        assert not _is_caught_up(follower)
        first = read_records(follower, 2)
        wait_until(lambda: not follower.poll() and follower.caught_up, "the follower has caught up")
        assert [(record.key, record.value, record.headers) for record in first] == [
            (b"a", b"1", ()),
            (b"b", b"2", HEADERS),
        ]
        log.open_log().append([Output(log.topics.datasets, b"a", None)])
        assert [(record.key, record.value) for record in read_records(follower, 1)] == [(b"a", None)]
        assert _is_caught_up(follower)
        follower.close()

    def test_the_end_of_a_follower_is_renewed(self, log: LogUnderTest) -> None:
        writer = log.open_log()
        follower = writer.follow(log.topics.datasets)
        wait_until(lambda: not follower.poll() and follower.caught_up, "the follower has caught up")
        log.open_log().append([Output(log.topics.datasets, b"a", b"1")])
        assert _is_caught_up(follower)
        follower.renew_end()
        assert not _is_caught_up(follower)
        assert len(read_records(follower, 1)) == 1
        wait_until(lambda: not follower.poll() and follower.caught_up, "the follower has caught up again")
        follower.close()

    def test_a_follower_of_an_empty_topic_is_caught_up(self, log: LogUnderTest) -> None:
        assert read_topic(log.open_log(), log.topics.decisions) == []

    def test_every_log_reads_what_another_appended(self, log: LogUnderTest) -> None:
        log.open_log().append([Output(log.topics.decisions, b"k", b"v")], timeout=60)
        assert [record.value for record in read_topic(log.open_log(), log.topics.decisions)] == [b"v"]

    def test_of_several_concurrent_changes_of_a_key_one_succeeds(self, log: LogUnderTest) -> None:
        topic = log.topics.datasets
        writers = [log.open_log() for _ in range(3)]
        writers[0].append([Output(topic, b"k", b"before"), Output(topic, b"other", b"before")])
        with pytest.raises(VersionConflict, match=r"k of .*datasets"):
            writers[1].append_if_unchanged(Output(topic, b"k", b"never"), None)
        first = next(record for record in read_topic(writers[0], topic) if record.key == b"k")

        def change(number: int) -> bool:
            try:
                writers[number].append_if_unchanged(Output(topic, b"k", str(number).encode()), first.position)
            except VersionConflict:
                return False
            return True

        with ThreadPoolExecutor(len(writers)) as pool:
            succeeded = list(pool.map(change, range(len(writers))))
        assert sum(succeeded) == 1
        records = [record for record in read_topic(writers[0], topic) if record.key == b"k"]
        values = [record.value for record in records if record.value != b"before"]
        assert values == [str(succeeded.index(True)).encode()]
        # The position of the last record allows the next change. No position allows a change only if the key is new.
        writers[1].append_if_unchanged(Output(topic, b"k", None), records[-1].position)
        writers[1].append_if_unchanged(Output(topic, b"new", b"1"), None)
        with pytest.raises(VersionConflict):
            writers[2].append_if_unchanged(Output(topic, b"k", b"never"), records[-1].position)


class SessionConformance:
    def test_records_are_returned_in_order_byte_for_byte(self, log: LogUnderTest) -> None:
        session = log.open_session()
        sent = [
            Output(log.topics.sentences, b"key", b'{"tokens": []}', HEADERS, 0),
            Output(log.topics.sentences, None, bytes(range(256)), (), 0),
            Output(log.topics.sentences, b"\xff\x00", b"", (), 0),
            Output(log.topics.sentences, b"deleted", None, (), 0),
            Output(log.topics.sentences, None, None, HEADERS, 0),
        ]
        session.append(sent)
        wait_for_assignment(session)
        received: list[Record] = []
        while len(received) < len(sent):
            received += iter_records(poll_batch(session, max_records=2))
        assert [(record.key, record.value, record.headers) for record in received] == [
            (output.key, output.value, output.headers) for output in sent
        ]
        assert [record.offset for record in received] == list(range(len(sent)))
        assert {(record.topic, record.partition) for record in received} == {(log.topics.sentences, 0)}
        assert all(record.timestamp_ms > 1_700_000_000_000 for record in received)

    def test_a_batch_has_at_most_max_records(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2", b"3", b"4", b"5"]))
        wait_for_assignment(session)
        sizes: list[int] = []
        while sum(sizes) < 5:
            sizes.append(len(poll_batch(session, max_records=2)))
        assert max(sizes) <= 2

    def test_a_batch_has_at_most_max_bytes_and_at_least_one_record(self, log: LogUnderTest) -> None:
        session = log.open_session()
        sent = [b"1" * 400, b"2" * 400, b"3" * 400, b"4" * 2_000, b"5" * 10]
        session.append(make_sentence_outputs(log.topics.sentences, sent))
        wait_for_assignment(session)
        batches: list[list[bytes | None]] = []
        while sum(map(len, batches)) < len(sent):
            batches.append(list_values(poll_batch(session, max_records=5, max_bytes=1_000)))
        assert [value for batch in batches for value in batch] == sent
        assert all(len(batch) == 1 or sum(len(value or b"") for value in batch) <= 1_000 for batch in batches)

    def test_an_empty_batch_commits_nothing(self, log: LogUnderTest) -> None:
        session = log.open_session()
        assignment = wait_for_assignment(session)[0]
        batch = session.poll(max_records=10, timeout=0.1)
        assert len(batch) == 0
        assert batch.next_offsets == {}
        session.commit(BatchResult(batch))
        session.close()
        assert wait_for_assignment(log.open_session())[0] == assignment

    def test_a_session_with_its_partitions_has_a_complete_assignment(self, log: LogUnderTest) -> None:
        session = log.open_session()
        wait_for_assignment(session)
        assert session.assignment_complete

    def test_a_new_log_starts_at_the_first_record_without_state(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"first"]))
        assignment = wait_for_assignment(session)[0]
        assert (assignment.next_offset, assignment.state, assignment.lost_records) == (0, {}, 0)

    def test_a_commit_makes_outputs_visible_and_the_next_owner_continues_from_its_state(
        self, log: LogUnderTest
    ) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2", b"3"]))
        wait_for_assignment(session)
        batch = poll_batch(session, max_records=1)
        outputs = [
            Output(log.topics.review, b"d/1", b'{"flags": []}', HEADERS),
            Output(log.topics.dead_letters, None, b"\x80", HEADERS),
        ]
        session.commit(make_batch_result(batch, outputs, {b"statistics": b"[1]", b"more": b"\x00\xff"}))
        assert [(record.key, record.value, record.headers) for record in read_topic(session, log.topics.review)] == [
            (b"d/1", b'{"flags": []}', HEADERS)
        ]
        assert [record.value for record in read_topic(session, log.topics.dead_letters)] == [b"\x80"]
        session.close()

        successor = log.open_session()
        assignment = wait_for_assignment(successor)[0]
        assert assignment.state == {b"statistics": b"[1]", b"more": b"\x00\xff"}
        assert assignment.next_offset == batch.next_offsets[0]
        assert list_values(poll_batch(successor, max_records=1)) == [b"2"]

    def test_a_commit_without_outputs_stores_the_position(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2"]))
        wait_for_assignment(session)
        session.commit(BatchResult(poll_batch(session, max_records=1)))
        session.close()
        assert wait_for_assignment(log.open_session())[0].next_offset == 1

    def test_a_refused_commit_writes_nothing_and_the_records_are_returned_again(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2"]))
        wait_for_assignment(session)
        session.commit(make_batch_result(poll_batch(session, max_records=1), state={b"seen": b"1"}))
        batch = poll_batch(session)
        output = Output(log.topics.review, b"key", b"value")
        with pytest.raises(CommitRefused):
            session.commit(make_batch_result(batch, [output, log.make_unwritable_output()], {b"seen": b"2"}))

        assignment = wait_for_assignment(session)[0]
        assert (assignment.next_offset, assignment.state) == (1, {b"seen": b"1"})
        assert read_topic(session, log.topics.review) == []
        retried = poll_batch(session)
        assert list(iter_records(retried)) == list(iter_records(batch))

        session.commit(make_batch_result(retried, [output], {b"seen": b"2"}))
        assert [record.value for record in read_topic(session, log.topics.review)] == [b"value"]
        session.close()
        assignment = wait_for_assignment(log.open_session())[0]
        assert (assignment.next_offset, assignment.state) == (2, {b"seen": b"2"})

    def test_a_batch_that_was_refused_several_times_is_committed_exactly_once(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2", b"3"]))
        wait_for_assignment(session)
        for value in (b"1", b"2", b"3"):
            for _ in range(2):
                output = Output(log.topics.review, value, value)
                with pytest.raises(CommitRefused):
                    session.commit(
                        make_batch_result(poll_batch(session, max_records=1), [output, log.make_unwritable_output()])
                    )
                wait_for_assignment(session)
            batch = poll_batch(session, max_records=1)
            assert list_values(batch) == [value]
            session.commit(make_batch_result(batch, [Output(log.topics.review, value, value)], {b"last": value}))
        assert sorted(record.value or b"" for record in read_topic(session, log.topics.review)) == [b"1", b"2", b"3"]

    def test_state_and_offset_match_after_every_commit(self, log: LogUnderTest) -> None:
        log.open_log().append(make_sentence_outputs(log.topics.sentences, [b"1", b"2", b"3"]))
        for count in range(3):
            session = log.open_session()
            assignment = wait_for_assignment(session)[0]
            assert assignment.next_offset == count
            assert assignment.state == ({b"count": str(count).encode()} if count else {})
            state = {b"count": str(count + 1).encode()}
            session.commit(make_batch_result(poll_batch(session, max_records=1), state=state))
            session.close()

    def test_the_newest_value_of_each_state_key_is_restored(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [str(n).encode() for n in range(8)]))
        wait_for_assignment(session)
        session.commit(make_batch_result(poll_batch(session, max_records=1), state={b"untouched": b"old", b"n": b"0"}))
        for n in range(1, 8):
            session.commit(make_batch_result(poll_batch(session, max_records=1), state={b"n": str(n).encode()}))
        session.close()
        assignment = wait_for_assignment(log.open_session())[0]
        assert assignment.state == {b"untouched": b"old", b"n": b"7"}
        assert assignment.next_offset == 8

    def test_lag_counts_the_records_that_are_not_read_yet(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2", b"3"]))
        wait_for_assignment(session)
        poll_batch(session, max_records=1)
        assert session.lag()[0] == 2
        log.open_log().append(make_sentence_outputs(log.topics.sentences, [b"4"]))
        remaining = 3
        while remaining:
            remaining -= len(poll_batch(session))
        assert session.lag()[0] == 0

    def test_a_paused_partition_returns_nothing_and_continues_where_it_was_committed(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2", b"3"]))
        wait_for_assignment(session)
        batch = poll_all(session, 3)[0]
        kept = RecordBatch({0: batch.records[0][:1]}, batch.lease)
        session.commit(make_batch_result(kept, [Output(log.topics.review, b"1", b"1")], {b"seen": b"1"}))
        session.pause(0, 1)
        log.open_log().append(make_sentence_outputs(log.topics.sentences, [b"4"]))
        for _ in range(5):
            assert not len(session.poll(max_records=10, timeout=POLL_TIMEOUT_S))
        wait_until(lambda: not len(session.poll(max_records=10, timeout=0.0)) and session.lag()[0] == 3, "lag shows 3")
        session.resume(0)
        received = poll_all(session, 3)
        assert [value for each in received for value in list_values(each)] == [b"2", b"3", b"4"]
        for each in received:
            session.commit(make_batch_result(each, state={b"seen": b"4"}))
        session.resume(0)  # it is not paused any more
        session.close()
        assignment = wait_for_assignment(log.open_session())[0]
        assert (assignment.next_offset, assignment.state) == (4, {b"seen": b"4"})

    def test_a_partition_that_is_paused_before_its_first_record_commits_nothing(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2"]))
        wait_for_assignment(session)
        batch = poll_batch(session, max_records=1)
        session.commit(BatchResult(RecordBatch({}, batch.lease)))
        session.pause(0, 0)
        assert not len(session.poll(max_records=10, timeout=POLL_TIMEOUT_S))
        session.close()
        successor = log.open_session()
        assert wait_for_assignment(successor)[0].next_offset == 0
        assert list_values(poll_batch(successor, max_records=1)) == [b"1"]

    def test_a_partition_that_is_assigned_again_is_not_paused(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1", b"2"]))
        wait_for_assignment(session)
        batch = poll_batch(session, max_records=1)
        session.pause(0, 0)
        with pytest.raises(CommitRefused):
            session.commit(make_batch_result(batch, [log.make_unwritable_output()]))
        assert wait_for_assignment(session)[0].next_offset == 0
        assert list_values(poll_batch(session, max_records=1)) == [b"1"]

    def test_after_a_crash_the_next_worker_continues(self, log: LogUnderTest) -> None:
        log.open_log().append(make_sentence_outputs(log.topics.sentences, [b"1", b"2", b"3"]))
        # It commits one record with an output and state, reads the next one, and crashes.
        result = subprocess.run(
            [sys.executable, "-m", "tests.stream.crashing_worker", *log.crash_arguments()], check=False, timeout=600
        )
        assert result.returncode == 9
        session = log.open_session()
        assignment = wait_for_assignment(session)[0]
        assert (assignment.next_offset, assignment.state) == (1, {b"state": b"of 1"})
        assert [record.value for record in read_topic(session, log.topics.review)] == [b"1"]
        batch = poll_batch(session)
        assert list_values(batch)[0] == b"2"
        session.commit(make_batch_result(batch, state={b"state": b"of more"}))

    def test_a_partition_is_followed_alone(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append([Output(log.topics.waiting, b"k", b"v", partition=0)])
        follower = session.follow_partition(log.topics.waiting, 0)
        [record] = read_records(follower, 1)
        assert (record.partition, record.key, record.value) == (0, b"k", b"v")
        wait_until(lambda: not follower.poll() and follower.caught_up, "the follower has caught up")
        follower.close()

    def test_released_records_are_committed_without_new_ones(self, log: LogUnderTest) -> None:
        session = log.open_session()
        session.append(make_sentence_outputs(log.topics.sentences, [b"1"]))
        wait_for_assignment(session)
        session.commit(make_batch_result(poll_batch(session), state={b"waiting": b"1"}))
        batch = self._poll_for_release(session)
        released = replace(batch, released={0: ReleasedRecords()})
        output = Output(log.topics.review, b"d/1", b"released")
        session.commit(BatchResult(released, [output], {0: {b"waiting": b"0"}}))
        assert [record.value for record in read_topic(session, log.topics.review)] == [b"released"]
        session.close()
        assignment = wait_for_assignment(log.open_session())[0]
        assert (assignment.next_offset, assignment.state) == (1, {b"waiting": b"0"})

    @staticmethod
    def _poll_for_release(session: WorkerSession) -> RecordBatch:
        batches: list[RecordBatch] = []

        def step() -> bool:
            session.poll_rebalance()
            batch = session.poll(max_records=10, timeout=0.1)
            batches.append(batch)
            return 0 in batch.partitions and not len(batch)

        wait_until(step, "the partition can be released")
        return batches[-1]


class WaitingConformance:
    @pytest.fixture
    def classifier(self, tmp_path: Path) -> Classifier:
        return Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))

    def test_a_dataset_waits_and_is_judged_in_the_order_of_offsets(
        self, log: LogUnderTest, classifier: Classifier
    ) -> None:
        writer = log.open_log()
        first, second = make_drug_sentences(30, start=1), make_drug_sentences(20, start=31)
        send(writer, log.topics, first)
        worker = run_worker(log.open_session(), log.topics, classifier)
        assert worker.counts.outputs == {log.topics.waiting: 30}
        state = read_state(writer, log.topics).snapshot.get_arrivals("med")
        assert state.total.waiting == 30
        stored = list(read_waiting_records(writer, log.topics, "med", next_offsets=state.next_offsets))
        assert stored == [record for record in read_topic(writer, log.topics.sentences) if record.partition == 0]

        put_settings(writer, log.topics, label_map=LABEL_MAP)
        send(writer, log.topics, second)
        worker = run_worker(log.open_session(), log.topics, classifier, batch_records=8)
        assessments = parse_assessments(read_topic(writer, log.topics.scores))
        assert sorted(assessment.id or "" for assessment in assessments) == sorted(str(n) for n in range(1, 51))
        thresholds = worker.snapshot.get_stats(worker.datasets.get_judge("med"))
        assert thresholds.histogram.total == 50
        assert read_topic(writer, log.topics.dead_letters) == []
        state = read_state(writer, log.topics).snapshot.get_arrivals("med")
        assert state.total.waiting == 0
        assert list(read_waiting_records(writer, log.topics, "med", next_offsets=state.next_offsets)) == []


def _is_caught_up(follower: Follower) -> bool:
    return follower.caught_up
