"""State that is read back: past others' open transactions, past what retention took."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, TopicPartition

from service.log.codec import position_key, position_value
from service.log.kafka.admin import (
    open_transactions,
)
from service.log.kafka.clients import send
from service.log.protocol import Output
from tests.stream.steps import batch, gain, sentences, until, values, work

if TYPE_CHECKING:
    import pytest
    from kafka import KafkaProducer

    from service.log.kafka.session import KafkaStream
    from service.log.kafka.settings import KafkaSettings
    from service.log.topics import Topics
    from tests.stream.conftest import Open


def test_a_restore_waits_out_an_open_transaction_and_says_whose_itowns(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics, stranger: KafkaProducer
) -> None:
    stream = opened(patience=-kafka_settings.transaction_timeout_ms / 1000)
    stream.append(sentences(kafka_topics.sentences, [b"1", b"2"]))
    stranger.begin_transaction()
    for key, value in ((b"seen", b"1"), (position_key(0), position_value(1))):
        send(stranger, Output(kafka_topics.state, key, value, partition=0)).get(60)
    assert [name.split()[0] for name in open_transactions(kafka_settings, kafka_topics.state, 0)] == ["stranger"]
    # The other partition does not wait for it.
    assert set(gain(stream, 1)) == {1}
    until(lambda: _troubled(stream), "the stream says what it waits for")
    assert "partition 0" in stream.troubles[0]
    assert "stranger" in stream.troubles[0]
    stranger.commit_transaction()
    gained = gain(stream)[0]
    assert (gained.next_offset, gained.state) == (1, {b"seen": b"1"})
    assert stream.troubles == ()
    assert open_transactions(kafka_settings, kafka_topics.state, 0) == []


def _troubled(stream: KafkaStream) -> bool:
    assert not stream.changes().gained
    stream.poll(max_records=1, timeout=0.2)
    return bool(stream.troubles)


def test_records_that_retention_took_are_counted(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    stream = opened("one")
    stream.append(sentences(kafka_topics.sentences, [b"%d" % n for n in range(6)]))
    gain(stream)
    stream.commit(work(batch(stream, max_records=2), state={b"seen": b"2"}))
    stream.close()
    place = TopicPartition(kafka_topics.sentences, 0)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_records({place: 5})

    successor = opened("one")
    gained = gain(successor)[0]
    assert (gained.next_offset, gained.lost_records, gained.state) == (5, 3, {b"seen": b"2"})
    # The same while it runs: the place it reads from is gone.
    successor._member.seek(0, 1)
    successor._next[0] = 1
    again = gain(successor)[0]
    assert (again.next_offset, again.lost_records) == (5, 3)
    assert values(batch(successor)) == [b"5"]


def test_a_state_that_is_ahead_of_its_input_is_told_not_guessed(
    opened: Open, kafka_topics: Topics, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.log.kafka.state_restore.RETRY_AFTER", 0.0)
    stream = opened()
    stream.append([Output(kafka_topics.state, position_key(0), position_value(100), partition=0)])
    gain(stream, 1)
    until(lambda: _troubled(stream), "the stream says what is wrong")
    assert "offset 100 comes next, but the input ends at 0" in stream.troubles[0]
    waiting = stream._restorer._pending
    first = waiting[0].told_at
    until(lambda: _troubled(stream) and waiting[0].told_at > first, "it is tried again, with the same outcome")
    assert len([one for one in caplog.messages if "offset 100 comes next" in one]) == 1
