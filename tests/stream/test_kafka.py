"""Transactions and fencing, on a real broker."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from service.log.kafka.clients import create_producer, send
from service.log.kafka.library_fixes.transactions.watchdog import Watchdog
from service.log.kafka.worker.session import KafkaWorkerSession, Lease
from service.log.protocol import BatchResult, CommitRefused, FencedError, Output, RecordBatch, ReleasedRecords
from service.log.topics import MAX_OUTPUT_BYTES
from tests.stream.steps import (
    POLL_TIMEOUT_S,
    list_values,
    make_batch_result,
    make_sentence_outputs,
    poll_batch,
    read_topic,
    wait_for_assignment,
    wait_until,
)

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from service.log.kafka.log import KafkaLog
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenSession


# -- transactions -----------------------------------------------------------------------------------------------------


def test_a_follower_does_not_see_what_is_not_committed(
    kafka_log: KafkaLog, kafka_topics: Topics, foreign_producer: KafkaProducer
) -> None:
    follower = kafka_log.follow(kafka_topics.review)
    foreign_producer.begin_transaction()
    send(foreign_producer, Output(kafka_topics.review, b"k", b"open", partition=0)).get(60)
    assert [follower.poll() for _ in range(5)] == [[]] * 5
    foreign_producer.abort_transaction()
    foreign_producer.begin_transaction()
    send(foreign_producer, Output(kafka_topics.review, b"k", b"committed", partition=0)).get(60)
    foreign_producer.commit_transaction()
    values: list[bytes | None] = []

    def step() -> bool:
        values.extend(record.value for record in follower.poll())
        return bool(values)

    wait_until(step, "the commit is visible")
    assert values == [b"committed"]
    follower.close()


def test_a_message_that_the_broker_refuses_aborts_the_whole_batch(
    open_session: OpenSession, kafka_topics: Topics
) -> None:
    session = open_session()
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(session)
    accepted = Output(kafka_topics.review, b"k", b"accepted")
    too_large = Output(
        kafka_topics.datasets, b"k", bytes(2_000_000)
    )  # above the limit of the topic, below that of the producer
    with pytest.raises(CommitRefused, match="transaction failed"):
        session.commit(make_batch_result(poll_batch(session), [accepted, too_large]))
    assert wait_for_assignment(session)[0].next_offset == 0
    assert read_topic(session, kafka_topics.review) == []
    session.commit(make_batch_result(poll_batch(session), [accepted]))
    assert [record.value for record in read_topic(session, kafka_topics.review)] == [b"accepted"]


def test_a_batch_that_was_read_before_another_was_refused_is_refused_too(
    open_session: OpenSession, kafka_topics: Topics
) -> None:
    session = open_session()
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(session)
    first, second = poll_batch(session, max_records=1), poll_batch(session, max_records=1)
    with pytest.raises(CommitRefused, match="an earlier batch was not committed"):
        session.commit(make_batch_result(second))
    with pytest.raises(CommitRefused, match="another batch failed"):
        session.commit(make_batch_result(first))
    wait_for_assignment(session)
    assert list_values(poll_batch(session, max_records=1)) == [b"1"]


def test_batches_read_ahead_are_committed_in_their_order(open_session: OpenSession, kafka_topics: Topics) -> None:
    session = open_session("one")
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(session)
    for batch in [poll_batch(session, max_records=1), poll_batch(session, max_records=1)]:
        session.commit(make_batch_result(batch))
    session.close()
    assert wait_for_assignment(open_session("one"))[0].next_offset == 2


def test_gaps_that_producers_with_transactions_leave_in_the_offsets_are_no_loss(
    open_session: OpenSession, kafka_topics: Topics, foreign_producer: KafkaProducer
) -> None:
    session = open_session("one")
    wait_for_assignment(session)
    sent = [b"%d" % n for n in range(6)]
    for value in sent:
        foreign_producer.begin_transaction()
        send(foreign_producer, Output(kafka_topics.sentences, None, b"aborted", partition=0)).get(60)
        foreign_producer.abort_transaction()
        foreign_producer.begin_transaction()
        send(foreign_producer, Output(kafka_topics.sentences, None, value, partition=0)).get(60)
        foreign_producer.commit_transaction()
    received: list[bytes | None] = []
    while len(received) < 4:
        batch = poll_batch(session, max_records=2)
        session.commit(make_batch_result(batch))
        received += list_values(batch)
    session.close()
    successor = open_session("one")
    wait_for_assignment(successor)
    while len(received) < len(sent):
        received += list_values(poll_batch(successor))
    assert received == sent


# -- fencing ---------------------------------------------------------------------------------------------------


def test_a_batch_that_was_read_without_membership_is_refused(open_session: OpenSession, kafka_topics: Topics) -> None:
    """The broker would accept its offsets."""
    session = open_session()
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(session)
    batch = poll_batch(session)
    assert isinstance(batch.lease, Lease)
    no_member = batch.lease.group_metadata._replace(generation_id=-1, member_id="")
    with pytest.raises(CommitRefused, match="was not a member of its group"):
        session.commit(make_batch_result(RecordBatch(batch.records, replace(batch.lease, group_metadata=no_member))))
    wait_for_assignment(session)
    session.commit(make_batch_result(poll_batch(session)))


def test_a_worker_that_exceeds_the_poll_interval_cannot_commit(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    short_timeouts = kafka_settings.model_copy(
        update={
            "session_timeout_ms": 8_000,
            "max_poll_interval_ms": 15_000,
            "transaction_timeout_ms": 7_000,
            "delivery_timeout_ms": 6_000,
        }
    )
    slow = open_session(settings=short_timeouts)
    slow.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(slow)
    batch = poll_batch(slow)
    wait_until(lambda: _generation(slow) < 0, "the slow worker has lost its membership")
    other = open_session()
    wait_for_assignment(other, 0, 1)
    with pytest.raises(CommitRefused, match="max_poll_interval_ms"):
        slow.commit(
            make_batch_result(batch, [Output(kafka_topics.review, b"k", b"of the slow worker")], {b"count": b"2"})
        )
    other.commit(
        make_batch_result(poll_batch(other), [Output(kafka_topics.review, b"k", b"of the other")], {b"count": b"2"})
    )
    assert [record.value for record in read_topic(other, kafka_topics.review)] == [b"of the other"]


def test_a_worker_that_lost_a_partition_cannot_release_its_stored_records(
    open_session: OpenSession, kafka_topics: Topics
) -> None:
    """Its batch has no new records, so only the offset that it commits again tells the broker which partition it is."""
    former = open_session("one")
    wait_for_assignment(former, 0, 1)
    batch = replace(former.poll(max_records=1, timeout=0.2), released={0: ReleasedRecords()})
    assert batch.partitions == {0, 1}
    current = open_session("one")
    wait_for_assignment(current, 0, 1)
    with pytest.raises((CommitRefused, FencedError)):
        former.commit(BatchResult(batch, [Output(kafka_topics.review, b"k", b"of the former")]))
    assert read_topic(current, kafka_topics.review) == []


def test_a_release_of_a_partition_that_is_being_restored_is_refused(
    open_session: OpenSession, kafka_topics: Topics
) -> None:
    session = open_session()
    wait_for_assignment(session, 0, 1)
    release = replace(session.poll(max_records=1, timeout=0.0), released={0: ReleasedRecords()})
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    too_large = Output(kafka_topics.review, b"k", bytes(MAX_OUTPUT_BYTES + 100_000))
    with pytest.raises(CommitRefused):
        session.commit(make_batch_result(poll_batch(session), [too_large]))
    with pytest.raises(CommitRefused, match="another batch failed"):
        session.commit(BatchResult(release, [Output(kafka_topics.review, b"k", b"released")]))
    assert read_topic(session, kafka_topics.review) == []


def test_stored_records_are_released_while_a_partition_is_paused_behind_a_gap(
    open_session: OpenSession, kafka_topics: Topics, foreign_producer: KafkaProducer
) -> None:
    """A producer with transactions leaves an offset without a record before the one that can't be judged yet."""
    session = open_session()
    wait_for_assignment(session)
    for value in (b"1", b"2"):
        foreign_producer.begin_transaction()
        send(foreign_producer, Output(kafka_topics.sentences, b"k", value, partition=0)).get(60)
        foreign_producer.commit_transaction()
    session.commit(make_batch_result(poll_batch(session, max_records=1)))
    stopped = poll_batch(session)
    assert [record.offset for record in stopped.records[0]] == [2]
    session.pause(0, 2)
    for value in (b"a", b"b"):
        release = replace(session.poll(max_records=1, timeout=0.2), released={0: ReleasedRecords()})
        session.commit(BatchResult(release, [Output(kafka_topics.review, value, value)]))
    assert {record.value for record in read_topic(session, kafka_topics.review)} == {b"a", b"b"}
    session.resume(0)
    batch = poll_batch(session)
    assert list_values(batch) == [b"2"]
    session.commit(make_batch_result(batch))


def _generation(session: KafkaWorkerSession) -> int:
    time.sleep(0.2)
    metadata = session._consumer.group_metadata()
    return 0 if metadata is None else int(metadata.generation_id)


def test_a_worker_whose_producer_is_fenced_stops(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    session = open_session("one")
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(session)
    batch = poll_batch(session)
    rival = create_producer(kafka_settings, transactional_id=session._producer._transactional_id)
    rival.init_transactions()
    with pytest.raises(FencedError, match="another process uses the transactional id"):
        session.commit(make_batch_result(batch, [Output(kafka_topics.review, b"k", b"v")]))
    rival.close(timeout=10)
    assert read_topic(session, kafka_topics.review) == []


def test_of_two_workers_with_one_id_the_older_stops(open_session: OpenSession, kafka_topics: Topics) -> None:
    older, newer = open_session("one"), open_session("one")
    older.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(older)
    batch = poll_batch(older, max_records=1)
    wait_for_assignment(newer, 0, 1)
    with pytest.raises(FencedError):
        older.commit(make_batch_result(batch))
    newer.commit(make_batch_result(poll_batch(newer)))  # the older one has not fenced the newer one


def test_a_worker_that_was_suspended_does_not_take_its_id_back(open_session: OpenSession) -> None:
    older, newer = open_session("one"), open_session("one")
    wait_for_assignment(older)
    wait_for_assignment(newer, 0, 1)
    older._consumer._polled_at -= 3600
    with pytest.raises(FencedError, match="another process uses the worker id one"):
        older.poll(max_records=1, timeout=0.1)
    # It does not take the transactional id back either.
    older._producer.discard()
    older._restore_all()
    with pytest.raises(FencedError, match="another process uses the worker id one"):
        older.poll_rebalance()


def test_a_spare_worker_has_a_complete_assignment_without_partitions(open_session: OpenSession) -> None:
    """It is ready: it waits for the partitions of the others."""
    workers = [open_session(f"worker-{number}") for number in range(3)]
    assert not workers[0].assignment_complete

    def step() -> bool:
        for worker in workers:
            worker.poll_rebalance()
            worker.poll(max_records=1, timeout=POLL_TIMEOUT_S)
        return (
            all(worker.assignment_complete for worker in workers) and sum(len(worker.lag()) for worker in workers) == 2
        )

    wait_until(step, "two of three workers have a partition each, and the third none")


def test_the_worker_ends_when_the_client_waits_forever(open_session: OpenSession, kafka_topics: Topics) -> None:
    messages: list[str] = []
    terminated = threading.Event()

    def terminate(message: str) -> None:
        messages.append(message)
        terminated.set()

    session = open_session(watchdog=Watchdog(step_timeout_s=1.0, tick_interval_s=0.2, terminate=terminate))
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(session)
    batch = poll_batch(session)
    producer = session._producer._producer
    assert producer is not None
    transactions = producer._transaction_manager
    begin_commit = transactions.begin_commit

    def hang() -> object:
        terminated.wait()
        return begin_commit()

    transactions.begin_commit = hang
    session.commit(make_batch_result(batch))
    assert len(messages) == 1
    assert "commit_transaction" in messages[0]
