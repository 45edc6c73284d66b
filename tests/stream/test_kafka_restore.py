"""Restoring state: with open transactions of others, and after retention has deleted records."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError

from service.log.codec import to_position_key, to_position_value
from service.log.kafka.admin import list_group_identities, list_open_transactions
from service.log.kafka.clients import create_group_consumer, create_producer, send
from service.log.kafka.library_fixes.transactions.disposal import dispose
from service.log.kafka.worker.dead_workers import DeadWorkerFencer
from service.log.protocol import Output
from tests.stream.steps import (
    list_values,
    make_batch_result,
    make_sentence_outputs,
    poll_batch,
    wait_for_assignment,
    wait_until,
)

if TYPE_CHECKING:
    from kafka import KafkaProducer

    from service.log.kafka.worker.session import KafkaWorkerSession
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenSession


def test_a_restore_waits_for_an_open_transaction_and_names_its_producer(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics, foreign_producer: KafkaProducer
) -> None:
    session = open_session(restore_grace_s=-kafka_settings.transaction_timeout_ms / 1000)
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    foreign_producer.begin_transaction()
    for key, value in ((b"seen", b"1"), (to_position_key(0), to_position_value(1))):
        send(foreign_producer, Output(kafka_topics.state, key, value, partition=0)).get(60)
    assert [name.split()[0] for name in list_open_transactions(kafka_settings, kafka_topics.state, 0)] == ["foreign"]
    # The other partition does not wait.
    assert set(wait_for_assignment(session, 1)) == {1}
    wait_until(lambda: _has_warnings(session), "the session says what it waits for")
    assert "partition 0" in session.warnings[0]
    assert "foreign" in session.warnings[0]
    foreign_producer.commit_transaction()
    assignment = wait_for_assignment(session)[0]
    assert (assignment.next_offset, assignment.state) == (1, {b"seen": b"1"})
    assert session.warnings == ()
    assert list_open_transactions(kafka_settings, kafka_topics.state, 0) == []


def _has_warnings(session: KafkaWorkerSession) -> bool:
    assert not session.poll_rebalance().assigned
    session.poll(max_records=1, timeout=0.2)
    return bool(session.warnings)


def test_records_that_retention_deleted_are_counted(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    session = open_session("one")
    session.append(make_sentence_outputs(kafka_topics.sentences, [b"%d" % n for n in range(6)]))
    wait_for_assignment(session)
    session.commit(make_batch_result(poll_batch(session, max_records=2), state={b"seen": b"2"}))
    session.close()
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_records({TopicPartition(kafka_topics.sentences, 0): 5})

    successor = open_session("one")
    assignment = wait_for_assignment(successor)[0]
    assert (assignment.next_offset, assignment.lost_records, assignment.state) == (5, 3, {b"seen": b"2"})
    # The same while it runs: its position is deleted.
    successor._consumer.seek(0, 1)
    successor._next_offsets[0] = 1
    assignment = wait_for_assignment(successor)[0]
    assert (assignment.next_offset, assignment.lost_records) == (5, 3)
    assert list_values(poll_batch(successor)) == [b"5"]


def test_a_state_that_is_ahead_of_its_input_causes_a_warning(
    open_session: OpenSession, kafka_topics: Topics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.log.kafka.worker.state_restore.RETRY_INTERVAL_S", 0.0)
    session = open_session()
    session.append([Output(kafka_topics.state, to_position_key(0), to_position_value(100), partition=0)])
    wait_for_assignment(session, 1)
    wait_until(lambda: _has_warnings(session), "the session says what is wrong")
    assert "the next offset in the state is 100, but the input ends at 0" in session.warnings[0]
    jobs = session._restorer._jobs
    first_warned_at = jobs[0].warned_at
    wait_until(
        lambda: _has_warnings(session) and jobs[0].warned_at > first_warned_at, "the restore is retried and fails again"
    )
    assert len([message for message in caplog.messages if "the next offset in the state is 100" in message]) == 1


def _open_transaction(settings: KafkaSettings, topic: str, transactional_id: str) -> KafkaProducer:
    """A producer whose transaction the brokers would not abort during the test."""
    patient = settings.model_copy(update={"transaction_timeout_ms": 600_000})
    producer = create_producer(patient, transactional_id=transactional_id)
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, Output(topic, b"seen", b"1", partition=0)).get(60)
    return producer


def test_a_restore_aborts_the_transaction_of_a_dead_worker(
    open_session: OpenSession, kafka_settings: KafkaSettings, kafka_topics: Topics, group: str
) -> None:
    dead = _open_transaction(kafka_settings, kafka_topics.state, f"{kafka_topics.prefix}{group}.gone")
    session = open_session()
    assignments = wait_for_assignment(session)
    assert assignments[0].state == {}
    with pytest.raises(KafkaError):
        dead.commit_transaction()
    dispose(dead)


def test_the_transaction_of_a_member_of_the_group_is_left_alone(
    kafka_settings: KafkaSettings, kafka_topics: Topics, group: str
) -> None:
    id_prefix = f"{kafka_topics.prefix}{group}."
    with closing(create_group_consumer(kafka_settings, group=group, worker_id=None, identity="living")) as member:
        member.subscribe([kafka_topics.sentences])
        fencer = DeadWorkerFencer(kafka_settings, group=group, id_prefix=id_prefix)

        def is_member() -> bool:
            member.poll(timeout_ms=100)
            return "living" in list_group_identities(kafka_settings, group=group)

        wait_until(is_member, "it is a member")
        assert not fencer.fence(kafka_topics.state, 0)
        living = _open_transaction(kafka_settings, kafka_topics.state, f"{id_prefix}living")
        assert fencer.fence(kafka_topics.state, 0)
        living.commit_transaction()
        living.close(timeout=10)
