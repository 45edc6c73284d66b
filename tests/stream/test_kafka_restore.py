"""State that is read back: past others' open transactions, past what retention took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, TopicPartition

from service.log.codec import to_position_key, to_position_value
from service.log.kafka.admin import (
    list_open_transactions,
)
from service.log.kafka.clients import send
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
    import pytest
    from kafka import KafkaProducer

    from service.log.kafka.session import KafkaWorkerSession
    from service.log.topics import Topics
    from service.settings.kafka import KafkaSettings
    from tests.stream.conftest import OpenStream


def test_a_restore_waits_out_an_open_transaction_and_says_whose_itowns(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics, stranger: KafkaProducer
) -> None:
    stream = opened(patience=-kafka_settings.transaction_timeout_ms / 1000)
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"1", b"2"]))
    stranger.begin_transaction()
    for key, value in ((b"seen", b"1"), (to_position_key(0), to_position_value(1))):
        send(stranger, Output(kafka_topics.state, key, value, partition=0)).get(60)
    assert [name.split()[0] for name in list_open_transactions(kafka_settings, kafka_topics.state, 0)] == ["stranger"]
    # The other partition does not wait for it.
    assert set(wait_for_assignment(stream, 1)) == {1}
    wait_until(lambda: _troubled(stream), "the stream says what it waits for")
    assert "partition 0" in stream.warnings[0]
    assert "stranger" in stream.warnings[0]
    stranger.commit_transaction()
    gained = wait_for_assignment(stream)[0]
    assert (gained.next_offset, gained.state) == (1, {b"seen": b"1"})
    assert stream.warnings == ()
    assert list_open_transactions(kafka_settings, kafka_topics.state, 0) == []


def _troubled(stream: KafkaWorkerSession) -> bool:
    assert not stream.poll_rebalance().assigned
    stream.poll(max_records=1, timeout=0.2)
    return bool(stream.warnings)


def test_records_that_retention_took_are_counted(
    opened: OpenStream, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    stream = opened("one")
    stream.append(make_sentence_outputs(kafka_topics.sentences, [b"%d" % n for n in range(6)]))
    wait_for_assignment(stream)
    stream.commit(make_batch_result(poll_batch(stream, max_records=2), state={b"seen": b"2"}))
    stream.close()
    place = TopicPartition(kafka_topics.sentences, 0)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_records({place: 5})

    successor = opened("one")
    gained = wait_for_assignment(successor)[0]
    assert (gained.next_offset, gained.lost_records, gained.state) == (5, 3, {b"seen": b"2"})
    # The same while it runs: the place it reads from is gone.
    successor._consumer.seek(0, 1)
    successor._next_offsets[0] = 1
    again = wait_for_assignment(successor)[0]
    assert (again.next_offset, again.lost_records) == (5, 3)
    assert list_values(poll_batch(successor)) == [b"5"]


def test_a_state_that_is_ahead_of_its_input_is_told_not_guessed(
    opened: OpenStream, kafka_topics: Topics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.log.kafka.state_restore.RETRY_INTERVAL_S", 0.0)
    stream = opened()
    stream.append([Output(kafka_topics.state, to_position_key(0), to_position_value(100), partition=0)])
    wait_for_assignment(stream, 1)
    wait_until(lambda: _troubled(stream), "the stream says what is wrong")
    assert "offset 100 comes next, but the input ends at 0" in stream.warnings[0]
    waiting = stream._restorer._jobs
    first = waiting[0].warned_at
    wait_until(lambda: _troubled(stream) and waiting[0].warned_at > first, "it is tried again, with the same outcome")
    assert len([one for one in caplog.messages if "offset 100 comes next" in one]) == 1
