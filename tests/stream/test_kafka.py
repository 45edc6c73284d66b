"""What only Kafka has: transactions of others, groups, fencing, offsets that go. On a real broker."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pytest
from kafka import KafkaAdminClient, TopicPartition

from service.contracts import DatasetSettings
from service.errors import StreamError
from service.inference.classifier import Classifier
from service.inference.folder import ModelFolder
from service.stream.assess import Assessor
from service.stream.base import CommitRefused, FencedError, Output, Polled
from service.stream.codec import position_key, position_value
from service.stream.datasets import Datasets
from service.stream.kafka import KafkaStream, Lease
from service.stream.kafka_admin import (
    count_brokers,
    create_topics,
    describe_topics,
    leave,
    member_id,
    open_transactions,
)
from service.stream.kafka_client import OddKey, send, writer
from service.stream.kafka_watchdog import Watchdog
from service.stream.worker import Worker
from tests.stream.steps import batch, everything, gain, records, sentences, until, values, work
from tests.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka import KafkaProducer

    from service.stream.base import Record
    from service.stream.kafka_settings import KafkaSettings
    from service.stream.topics import Topics

GROUP = "workers"


class Open(Protocol):
    def __call__(
        self,
        worker_id: str | None = None,
        *,
        settings: KafkaSettings | None = None,
        watchdog: Watchdog | None = None,
        patience: float = 30.0,
    ) -> KafkaStream: ...


@pytest.fixture
def group(kafka_topics: Topics) -> str:
    return f"{kafka_topics.prefix}{GROUP}"


@pytest.fixture
def opened(kafka_settings: KafkaSettings, kafka_topics: Topics, group: str) -> Iterator[Open]:
    streams: list[KafkaStream] = []

    def made(
        worker_id: str | None = None,
        *,
        settings: KafkaSettings | None = None,
        watchdog: Watchdog | None = None,
        patience: float = 30.0,
    ) -> KafkaStream:
        streams.append(
            KafkaStream(
                settings or kafka_settings,
                kafka_topics,
                group=group,
                worker_id=worker_id,
                watchdog=watchdog,
                patience=patience,
            )
        )
        return streams[-1]

    yield made
    for stream in streams:
        stream.close()


@pytest.fixture
def stranger(kafka_settings: KafkaSettings) -> Iterator[KafkaProducer]:
    """Somebody else's transactional producer."""
    producer = writer(kafka_settings, transactional_id="stranger")
    producer.init_transactions()
    yield producer
    producer.close(timeout=10)


class Runner(threading.Thread):
    """A worker that counts the records of each partition in its state, and writes each to the review topic."""

    def __init__(self, stream: KafkaStream, topics: Topics) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.topics = topics
        self.owned: set[int] = set()
        self.counts: dict[int, int] = {}
        self.lost: list[int] = []
        self.stop = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.step()
        except BaseException as error:  # noqa: BLE001 - it is shown by the test
            self.error = error
        finally:
            self.stream.close()

    def step(self) -> None:
        changes = self.stream.changes()
        self.lost += changes.lost
        self.owned -= set(changes.lost)
        for gained in changes.gained:
            self.owned.add(gained.partition)
            self.counts[gained.partition] = int(gained.state.get(b"count", b"0"))
            assert self.counts[gained.partition] == gained.next_offset
        polled = self.stream.poll(max_records=10, timeout=0.2)
        if not len(polled):
            return
        counts = {partition: self.counts[partition] + len(some) for partition, some in polled.records.items()}
        outputs = [Output(self.topics.review, record.value, record.value) for record in records(polled)]
        done = replace(
            work(polled, outputs), state={partition: {b"count": b"%d" % n} for partition, n in counts.items()}
        )
        try:
            self.stream.commit(done)
        except CommitRefused:
            return
        self.counts |= counts

    def end(self) -> None:
        self.stop.set()
        self.join(120)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


# -- transactions ------------------------------------------------------------------------------------------------------


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


# -- who may commit ----------------------------------------------------------------------------------------------------


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


# -- restoring ---------------------------------------------------------------------------------------------------------


def test_a_restore_waits_out_an_open_transaction_and_says_whose_it_is(
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


def test_a_state_that_is_ahead_of_its_input_is_told_not_guessed(opened: Open, kafka_topics: Topics) -> None:
    stream = opened()
    stream.append([Output(kafka_topics.state, position_key(0), position_value(100), partition=0)])
    gain(stream, 1)
    until(lambda: _troubled(stream), "the stream says what is wrong")
    assert "offset 100 comes next, but the input ends at 0" in stream.troubles[0]


# -- groups ------------------------------------------------------------------------------------------------------------


def test_two_workers_share_the_partitions_and_one_takes_over_from_the_other(opened: Open, kafka_topics: Topics) -> None:
    first, second = Runner(opened(), kafka_topics), Runner(opened(), kafka_topics)
    producer = opened()
    sent: list[bytes] = []

    def more(n: int) -> None:
        new = [b"%d" % (len(sent) + k) for k in range(n)]
        sent.extend(new)
        for k, value in enumerate(new):
            producer.append(sentences(kafka_topics.sentences, [value], partition=k % 2))

    def counted() -> int:
        return sum(max(one.counts.get(partition, 0) for one in (first, second)) for partition in (0, 1))

    more(4)
    first.start()
    until(lambda: _is(first, {0, 1}), "the first has both")
    until(lambda: counted() == 4, "it has read what is there")
    second.start()
    until(lambda: len(first.owned) == 1 and len(second.owned) == 1, "they share")
    assert first.owned != second.owned
    more(6)
    until(lambda: counted() == 10, "both have read what is there")
    second.end()
    until(lambda: _is(first, {0, 1}), "the first has both again")
    more(2)
    until(lambda: counted() == 12, "the first has read the rest")
    first.end()
    # Everything once, although it went through several hands.
    assert sorted(record.value or b"" for record in everything(producer, kafka_topics.review)) == sorted(sent)


def _is(runner: Runner, owned: set[int]) -> bool:
    time.sleep(0.1)
    assert runner.error is None
    return runner.owned == owned


def test_a_worker_with_a_fixed_identity_comes_back_to_its_partitions(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics, group: str
) -> None:
    patient = kafka_settings.model_copy(update={"session_timeout_ms": 60_000})
    first, second = (Runner(opened(name, settings=patient), kafka_topics) for name in ("one", "two"))
    first.start()
    second.start()
    until(lambda: _is(first, first.owned) and {len(first.owned), len(second.owned)} == {1}, "they share")
    had, moved = set(second.owned), len(first.lost)
    second.end()
    assert member_id(kafka_settings, group=group, worker_id="two") is not None
    third = Runner(opened("two", settings=patient), kafka_topics)
    third.start()
    until(lambda: _is(third, had), "it has its partition again")
    third.end()
    assert len(first.lost) == moved, "the other one was not disturbed"
    # Taken out of the group it is gone at once.
    assert leave(kafka_settings, group=group, worker_id="two")
    until(lambda: _is(first, {0, 1}), "the other has everything")
    first.end()
    assert not leave(kafka_settings, group=group, worker_id="two")


def test_partitions_that_are_added_are_taken_up(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    runner = Runner(opened(), kafka_topics)
    runner.start()
    until(lambda: _is(runner, {0, 1}), "it has what there is")
    producer = opened()
    follower = producer.follow(kafka_topics.state)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.create_partitions({kafka_topics.sentences: 3})
    problems = {report.name: report.problems for report in describe_topics(kafka_settings, kafka_topics)}
    assert "it has 2 partitions and the input 3" in problems[kafka_topics.state][0]
    made = create_topics(kafka_settings, kafka_topics, partitions=3, replication=1, min_isr=1)
    assert made == [f"{kafka_topics.state} (grown to 3 partitions)"]
    until(lambda: _is(runner, {0, 1, 2}), "it has the new one too")
    producer.append(sentences(kafka_topics.sentences, [b"new"], partition=2))
    until(lambda: runner.counts.get(2) == 1, "it reads the new one")
    seen: list[int] = []

    def step() -> bool:
        seen.extend(record.partition for record in follower.poll())
        return 2 in seen

    until(step, "a follower of the grown topic sees its new partition")
    follower.close()
    runner.end()


# -- topics ------------------------------------------------------------------------------------------------------------


def test_topics_are_made_as_they_must_be_and_what_is_wrong_with_one_is_told(
    kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    assert count_brokers(kafka_settings) >= 1
    assert create_topics(kafka_settings, kafka_topics, partitions=9, replication=1, min_isr=1) == []
    reports = {report.name: report for report in describe_topics(kafka_settings, kafka_topics)}
    assert {name: report.problems for name, report in reports.items() if report.problems} == {}
    assert reports[kafka_topics.sentences].partitions == reports[kafka_topics.state].partitions == 2
    assert reports[kafka_topics.datasets].partitions == 1
    assert reports[kafka_topics.state].configs["cleanup.policy"] == "compact"
    assert reports[kafka_topics.review].configs["max.message.bytes"] == str(8 * 1024 * 1024)
    with KafkaAdminClient(bootstrap_servers=kafka_settings.servers) as admin:
        admin.delete_topics([kafka_topics.scores, kafka_topics.state])
        until(lambda: kafka_topics.state not in admin.list_topics(), "the topic is gone")
        admin.create_topics({kafka_topics.state: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([kafka_topics.state])
    reports = {report.name: report for report in describe_topics(kafka_settings, kafka_topics)}
    assert not reports[kafka_topics.scores].exists
    assert "labelwatch topics create" in reports[kafka_topics.scores].problems[0]
    assert [problem.split()[1] for problem in reports[kafka_topics.state].problems] == [
        "cleanup.policy",
        "max.message.bytes",
        "has",
    ]
    with pytest.raises(StreamError, match="can't have 99 copies on"):
        create_topics(kafka_settings, kafka_topics, partitions=2, replication=99, min_isr=1)
    assert create_topics(kafka_settings, kafka_topics, partitions=2, replication=1, min_isr=1) == [
        kafka_topics.scores,
        f"{kafka_topics.state} (grown to 2 partitions)",
    ]


def test_a_topic_that_is_missing_is_named(opened: Open) -> None:
    stream = opened()
    with pytest.raises(StreamError, match=r"no-such-topic does not exist: run `labelwatch topics create`"):
        stream.follow("no-such-topic")


# -- others' clients ---------------------------------------------------------------------------------------------------


def kcat(kafka_settings: KafkaSettings, *arguments: bytes | str, given: bytes = b"") -> bytes:
    subprocess.run(["tests/system-packages", "kcat"], check=True)
    command = ["kcat", "-b", kafka_settings.bootstrap_servers, *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True, timeout=300).stdout


def test_header_keys_that_are_not_text_and_messages_without_anything_come_and_go_as_they_are(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics
) -> None:
    stream = opened()
    odd = b"k\xff\xfe"
    place = ["-P", "-t", kafka_topics.sentences, "-p", "0"]
    kcat(kafka_settings, *place, "-H", odd + b"=v", "-H", "empty", given=b"odd\n")
    kcat(kafka_settings, *place, "-Z", "-K", ":", given=b":\n")
    gain(stream)
    got: list[Record] = []
    while len(got) < 2:
        polled = batch(stream, max_records=1)
        got += records(polled)
        outputs = [Output(kafka_topics.dead_letters, one.key, one.value, one.headers, 0) for one in records(polled)]
        stream.commit(work(polled, outputs))
    assert isinstance(got[0].headers[0][0], OddKey)
    assert [(key.encode(), value) for key, value in got[0].headers] == [(odd, b"v"), (b"empty", b"")]
    assert (got[0].value, got[1].key, got[1].value) == (b"odd", None, None)
    dead = [
        (r.key, r.value, [(k.encode(), v) for k, v in r.headers]) for r in everything(stream, kafka_topics.dead_letters)
    ]
    assert dead == [(r.key, r.value, [(k.encode(), v) for k, v in r.headers]) for r in got]


def test_kcat_sends_bare_json_and_reads_what_is_flagged(
    opened: Open, kafka_settings: KafkaSettings, kafka_topics: Topics, tmp_path: Path
) -> None:
    """The real worker with a tiny model between a producer and a consumer that know nothing of us."""
    classifier = Classifier(ModelFolder.load(make_model(tmp_path / "model", "wordpiece")))
    every = DatasetSettings(name="default", control_share=1.0)
    stream = opened()
    stream.append([Output(kafka_topics.datasets, b"default", every.model_dump_json().encode())])
    datasets = Datasets(classifier.folder, min_words=0, prior_words=0)
    assessor = Assessor(classifier, datasets, kafka_topics)
    worker, stop = Worker(stream, assessor, datasets, kafka_topics), threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,), daemon=True)
    thread.start()
    label = classifier.folder.labels[0]
    lines = [json.dumps({"tokens": ["the", "fox", str(n)], "labels": [label] * 3}) for n in range(20)]
    given = "\n".join([*lines, "not JSON"]).encode() + b"\n"
    kcat(kafka_settings, "-P", "-t", kafka_topics.sentences, given=given)
    until(lambda: thread.is_alive() and worker.counts.records == 21, "all are assessed")
    stop.set()
    thread.join(120)
    told = kcat(
        kafka_settings,
        *("-C", "-e", "-q", "-t", kafka_topics.review),
        *("-X", "isolation.level=read_committed", "-f", "%k\t%s\n"),
    )
    seen = dict(line.split("\t") for line in told.decode().splitlines())
    assert len(seen) == 20
    assert sorted(json.loads(value)["tokens"][2] for value in seen.values()) == sorted(str(n) for n in range(20))
    assert {json.loads(value)["reason"] for value in seen.values()} <= {"control", "flagged"}
    dead = kcat(kafka_settings, "-C", "-e", "-q", "-t", kafka_topics.dead_letters, "-f", "%s\t%h\n")
    value, headers = dead.decode().strip().split("\t")
    assert value == "not JSON"
    assert "__connect.errors.stage=decode" in headers
