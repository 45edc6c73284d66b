"""Transactions, and who may commit. On a real broker."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from service.log.kafka.clients import send, writer
from service.log.kafka.library_fixes.watchdog import Watchdog
from service.log.kafka.session import KafkaStream, Lease
from service.log.protocol import CommitRefused, FencedError, Output, Polled
from tests.stream.steps import POLL, batch, everything, gain, sentences, until, values, work

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from service.log.kafka.settings import KafkaSettings
    from service.log.topics import Topics
    from tests.stream.conftest import Open


# -- transactions -----------------------------------------------------------------------------------------------------


def test_what_is_not_committed_is_not_seen(opened: Open, kafka_topics: Topics, stranger: KafkaProducer) -> None:
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

    until(step, "the commit is seen")
    assert seen == [b"committed"]
    follower.close()


def test_a_message_that_the_broker_refuses_takes_the_whole_batch_along(opened: Open, kafka_topics: Topics) -> None:
    stream = opened()
    stream.append(sentences(kafka_topics.sentences, [b"1"]))
    gain(stream)
    seen = Output(kafka_topics.review, b"k", b"seen?")
    too_big = Output(kafka_topics.datasets, b"k", bytes(2_000_000))  # past the topic's limit, not past the producer's
    with pytest.raises(CommitRefused, match="transaction failed"):
        stream.commit(work(batch(stream), [seen, too_big]))
    assert gain(stream)[0].next_offset == 0
    assert everything(stream, kafka_topics.review) == []
    stream.commit(work(batch(stream), [seen]))
    assert [record.value for record in everything(stream, kafka_topics.review)] == [b"seen?"]


def test_a_batch_read_before_another_was_refused_is_refused_too(opened: Open, kafka_topics: Topics) -> None:
    stream = opened()
    stream.append(sentences(kafka_topics.sentences, [b"1", b"2"]))
    gain(stream)
    first, second = batch(stream, max_records=1), batch(stream, max_records=1)
    with pytest.raises(CommitRefused, match="a batch before it"):
        stream.commit(work(second))
    with pytest.raises(CommitRefused, match="another batch failed"):
        stream.commit(work(first))
    gain(stream)
    assert values(batch(stream, max_records=1)) == [b"1"]


def test_batches_read_ahead_are_committed_in_their_order(opened: Open, kafka_topics: Topics) -> None:
    stream = opened("one")
    stream.append(sentences(kafka_topics.sentences, [b"1", b"2"]))
    gain(stream)
    for polled in [batch(stream, max_records=1), batch(stream, max_records=1)]:
        stream.commit(work(polled))
    stream.close()
    assert gain(opened("one"))[0].next_offset == 2


def test_producers_with_transactions_leave_gaps_in_the_offsets_that_are_no_loss(
    opened: Open, kafka_topics: Topics, stranger: KafkaProducer
) -> None:
    stream = opened("one")
    gain(stream)
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
        polled = batch(stream, max_records=2)
        stream.commit(work(polled))
        got += values(polled)
    stream.close()
    successor = opened("one")
    gain(successor)
    while len(got) < len(sent):
        got += values(batch(successor))
    assert got == sent


# -- who may commit ---------------------------------------------------------------------------------------------------


def test_a_batch_read_without_a_place_in_the_group_is_refused(opened: Open, kafka_topics: Topics) -> None:
    """The broker would take its offsets."""
    stream = opened()
    stream.append(sentences(kafka_topics.sentences, [b"1"]))
    gain(stream)
    polled = batch(stream)
    assert isinstance(polled.lease, Lease)
    nobody = polled.lease.group._replace(generation_id=-1, member_id="")
    with pytest.raises(CommitRefused, match="no place in its group"):
        stream.commit(work(Polled(polled.records, replace(polled.lease, group=nobody))))
    gain(stream)
    stream.commit(work(batch(stream)))


def test_a_worker_that_took_too_long_can_not_commit_what_another_has(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics
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
    slow.append(sentences(kafka_topics.sentences, [b"1", b"2"]))
    gain(slow)
    polled = batch(slow)
    until(lambda: _generation(slow) < 0, "the slow one has lost its place")
    other = opened()
    gain(other, 0, 1)
    with pytest.raises(CommitRefused, match="max_poll_interval_ms"):
        slow.commit(work(polled, [Output(kafka_topics.review, b"k", b"of the slow one")], {b"count": b"2"}))
    other.commit(work(batch(other), [Output(kafka_topics.review, b"k", b"of the other")], {b"count": b"2"}))
    assert [record.value for record in everything(other, kafka_topics.review)] == [b"of the other"]


def _generation(stream: KafkaStream) -> int:
    time.sleep(0.2)
    found = stream._member.group()
    return 0 if found is None else int(found.generation_id)


def test_a_fenced_producer_is_the_end(opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics) -> None:
    stream = opened("one")
    stream.append(sentences(kafka_topics.sentences, [b"1"]))
    gain(stream)
    polled = batch(stream)
    thief = writer(kafka_settings, transactional_id=stream._committer._id)
    thief.init_transactions()
    with pytest.raises(FencedError, match="another process has the transactional id"):
        stream.commit(work(polled, [Output(kafka_topics.review, b"k", b"v")]))
    thief.close(timeout=10)
    assert everything(stream, kafka_topics.review) == []


def test_of_two_workers_with_one_identity_the_older_ends(opened: Open, kafka_topics: Topics) -> None:
    older, newer = opened("one"), opened("one")
    older.append(sentences(kafka_topics.sentences, [b"1", b"2"]))
    gain(older)
    polled = batch(older, max_records=1)
    gain(newer, 0, 1)
    with pytest.raises(FencedError):
        older.commit(work(polled))
    newer.commit(work(batch(newer)))  # nobody has taken anything from the newer one


def test_a_worker_that_slept_does_not_take_its_identity_back(opened: Open) -> None:
    older, newer = opened("one"), opened("one")
    gain(older)
    gain(newer, 0, 1)
    older._member._polled_at -= 3600
    with pytest.raises(FencedError, match="another process works as one"):
        older.poll(max_records=1, timeout=0.1)
    # Nor does it take the transactional id back.
    older._committer.drop()
    older._restore_all()
    with pytest.raises(FencedError, match="another process works as one"):
        older.changes()


def test_one_worker_more_than_partitions_is_settled_without_any(opened: Open) -> None:
    """A spare one is as ready as the others: it waits for their partitions."""
    workers = [opened(f"worker-{number}") for number in range(3)]
    assert not workers[0].settled

    def step() -> bool:
        for worker in workers:
            worker.changes()
            worker.poll(max_records=1, timeout=POLL)
        return all(worker.settled for worker in workers) and sum(len(worker.lag()) for worker in workers) == 2

    until(step, "two of three workers have a partition each, and the third none")


def test_the_worker_ends_when_the_client_waits_for_ever(opened: Open, kafka_topics: Topics) -> None:
    ended: list[str] = []
    free = threading.Event()

    def end(sentence: str) -> None:
        ended.append(sentence)
        free.set()

    stream = opened(watchdog=Watchdog(limit=1.0, tick=0.2, end=end))
    stream.append(sentences(kafka_topics.sentences, [b"1"]))
    gain(stream)
    polled = batch(stream)
    producer = stream._committer._producer
    assert producer is not None
    producer.commit_transaction = free.wait
    stream.commit(work(polled))
    assert len(ended) == 1
    assert "commit_transaction" in ended[0]
