"""Transactions, and who may commit. On a real broker."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from service.log.kafka.clients import create_producer, send
from service.log.kafka.library_fixes.watchdog import Watchdog
from service.log.kafka.session import KafkaWorkerSession, Lease
from service.log.protocol import CommitRefused, FencedError, Output, RecordBatch
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

    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenStream


# -- transactions -----------------------------------------------------------------------------------------------------


def test_what_is_not_committed_is_not_seen(opened: OpenStream, kafka_topics: Topics, stranger: KafkaProducer) -> None:
    stream = opened()
    follower = stream.follow(kafka_topics.review)
    stranger.begin_transaction()
    send(stranger, Output(kafka_topics.review, b"k", b"open", partition=0)).get(60)
    assert [follower.poll() for _ in range(5)] == [[]] * 5
    stranger.abort_transaction()
    stranger.begin_transaction()
    send(stranger, Output(kafka_topics.review, b"k", b"committed", partition=0)).get(60)
    stranger.commit_transaction()
    seen: list[bytes | None] = []

    def step() -> bool:
        seen.extend(record.value for record in follower.poll())
        return bool(seen)

    wait_until(step, "the commit is seen")
    assert seen == [b"committed"]
    follower.close()


def test_a_message_that_the_broker_refuses_takes_the_whole_batch_along(
    opened: OpenStream, kafka_topics: Topics
) -> None:
    stream = opened()
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(stream)
    seen = Output(kafka_topics.review, b"k", b"seen?")
    too_big = Output(kafka_topics.datasets, b"k", bytes(2_000_000))  # past the topic's limit, not past the producer's
    with pytest.raises(CommitRefused, match="transaction failed"):
        stream.commit(make_batch_result(poll_batch(stream), [seen, too_big]))
    assert wait_for_assignment(stream)[0].next_offset == 0
    assert read_topic(stream, kafka_topics.review) == []
    stream.commit(make_batch_result(poll_batch(stream), [seen]))
    assert [record.value for record in read_topic(stream, kafka_topics.review)] == [b"seen?"]


def test_a_batch_read_before_another_was_refused_is_refused_too(opened: OpenStream, kafka_topics: Topics) -> None:
    stream = opened()
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(stream)
    first, second = poll_batch(stream, max_records=1), poll_batch(stream, max_records=1)
    with pytest.raises(CommitRefused, match="an earlier batch was not committed"):
        stream.commit(make_batch_result(second))
    with pytest.raises(CommitRefused, match="another batch failed"):
        stream.commit(make_batch_result(first))
    wait_for_assignment(stream)
    assert list_values(poll_batch(stream, max_records=1)) == [b"1"]


def test_batches_read_ahead_are_committed_in_their_order(opened: OpenStream, kafka_topics: Topics) -> None:
    stream = opened("one")
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(stream)
    for polled in [poll_batch(stream, max_records=1), poll_batch(stream, max_records=1)]:
        stream.commit(make_batch_result(polled))
    stream.close()
    assert wait_for_assignment(opened("one"))[0].next_offset == 2


def test_producers_with_transactions_leave_gaps_in_the_offsets_that_are_no_loss(
    opened: OpenStream, kafka_topics: Topics, stranger: KafkaProducer
) -> None:
    stream = opened("one")
    wait_for_assignment(stream)
    sent = [b"%d" % n for n in range(6)]
    for value in sent:
        stranger.begin_transaction()
        send(stranger, Output(kafka_topics.sentences, None, b"aborted", partition=0)).get(60)
        stranger.abort_transaction()
        stranger.begin_transaction()
        send(stranger, Output(kafka_topics.sentences, None, value, partition=0)).get(60)
        stranger.commit_transaction()
    got: list[bytes | None] = []
    while len(got) < 4:
        polled = poll_batch(stream, max_records=2)
        stream.commit(make_batch_result(polled))
        got += list_values(polled)
    stream.close()
    successor = opened("one")
    wait_for_assignment(successor)
    while len(got) < len(sent):
        got += list_values(poll_batch(successor))
    assert got == sent


# -- who may commit ---------------------------------------------------------------------------------------------------


def test_a_batch_read_without_a_place_in_the_group_is_refused(opened: OpenStream, kafka_topics: Topics) -> None:
    """The broker would take its offsets."""
    stream = opened()
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(stream)
    polled = poll_batch(stream)
    assert isinstance(polled.lease, Lease)
    nobody = polled.lease.group_metadata._replace(generation_id=-1, member_id="")
    with pytest.raises(CommitRefused, match="was not a member of its group"):
        stream.commit(make_batch_result(RecordBatch(polled.records, replace(polled.lease, group_metadata=nobody))))
    wait_for_assignment(stream)
    stream.commit(make_batch_result(poll_batch(stream)))


def test_a_worker_that_took_too_long_can_not_commit_what_another_has(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    hasty = kafka_settings.model_copy(
        update={
            "session_timeout_ms": 8_000,
            "max_poll_interval_ms": 15_000,
            "transaction_timeout_ms": 7_000,
            "delivery_timeout_ms": 6_000,
        }
    )
    slow = opened(settings=hasty)
    slow.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(slow)
    polled = poll_batch(slow)
    wait_until(lambda: _generation(slow) < 0, "the slow one has lost its place")
    other = opened()
    wait_for_assignment(other, 0, 1)
    with pytest.raises(CommitRefused, match="max_poll_interval_ms"):
        slow.commit(
            make_batch_result(polled, [Output(kafka_topics.review, b"k", b"of the slow one")], {b"count": b"2"})
        )
    other.commit(
        make_batch_result(poll_batch(other), [Output(kafka_topics.review, b"k", b"of the other")], {b"count": b"2"})
    )
    assert [record.value for record in read_topic(other, kafka_topics.review)] == [b"of the other"]


def _generation(stream: KafkaWorkerSession) -> int:
    time.sleep(0.2)
    found = stream._consumer.group_metadata()
    return 0 if found is None else int(found.generation_id)


def test_a_fenced_producer_is_the_end(opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics) -> None:
    stream = opened("one")
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(stream)
    polled = poll_batch(stream)
    thief = create_producer(kafka_settings, transactional_id=stream._producer._transactional_id)
    thief.init_transactions()
    with pytest.raises(FencedError, match="another process uses the transactional id"):
        stream.commit(make_batch_result(polled, [Output(kafka_topics.review, b"k", b"v")]))
    thief.close(timeout=10)
    assert read_topic(stream, kafka_topics.review) == []


def test_of_two_workers_with_one_identity_the_older_ends(opened: OpenStream, kafka_topics: Topics) -> None:
    older, newer = opened("one"), opened("one")
    older.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    wait_for_assignment(older)
    polled = poll_batch(older, max_records=1)
    wait_for_assignment(newer, 0, 1)
    with pytest.raises(FencedError):
        older.commit(make_batch_result(polled))
    newer.commit(make_batch_result(poll_batch(newer)))  # nobody has taken anything from the newer one


def test_a_worker_that_slept_does_not_take_its_identity_back(opened: OpenStream) -> None:
    older, newer = opened("one"), opened("one")
    wait_for_assignment(older)
    wait_for_assignment(newer, 0, 1)
    older._consumer._polled_at -= 3600
    with pytest.raises(FencedError, match="another process uses the worker id one"):
        older.poll(max_records=1, timeout=0.1)
    # Nor does it take the transactional id back.
    older._producer.discard()
    older._restore_all()
    with pytest.raises(FencedError, match="another process uses the worker id one"):
        older.poll_rebalance()


def test_one_worker_more_than_partitions_is_settled_without_any(opened: OpenStream) -> None:
    """A spare one is as ready as the others: it waits for their partitions."""
    workers = [opened(f"worker-{number}") for number in range(3)]
    assert not workers[0].assignment_complete

    def step() -> bool:
        for worker in workers:
            worker.poll_rebalance()
            worker.poll(max_records=1, timeout=POLL_TIMEOUT_S)
        return (
            all(worker.assignment_complete for worker in workers) and sum(len(worker.lag()) for worker in workers) == 2
        )

    wait_until(step, "two of three workers have a partition each, and the third none")


def test_the_worker_ends_when_the_client_waits_for_ever(opened: OpenStream, kafka_topics: Topics) -> None:
    ended: list[str] = []
    free = threading.Event()

    def end(sentence: str) -> None:
        ended.append(sentence)
        free.set()

    stream = opened(watchdog=Watchdog(step_timeout_s=1.0, tick_interval_s=0.2, terminate=end))
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"1"]))
    wait_for_assignment(stream)
    polled = poll_batch(stream)
    producer = stream._producer._producer
    assert producer is not None
    producer.commit_transaction = free.wait
    stream.commit(make_batch_result(polled))
    assert len(ended) == 1
    assert "commit_transaction" in ended[0]
