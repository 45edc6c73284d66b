"""Records of trainings: written and read back, and followed by a thread."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from service.contracts import Training
from service.datasets.training_view import TrainingView
from service.datasets.trainings import (
    Trainings,
    build_request_message,
    build_training_message,
    create_request,
    write_request,
)
from service.log.protocol import Output, Record
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = Topics()
START = datetime(2024, 5, 31, tzinfo=UTC)


def make_training(model: str, *, minute: int = 0, dataset: str = "med", **fields: object) -> Training:
    return Training.model_validate(
        {
            "dataset": dataset,
            "model": model,
            "result": "used",
            "started_at": START + timedelta(minutes=minute),
            "arrived": 300,
            **fields,
        }
    )


def to_record(output: Output, offset: int) -> Record:
    return Record(output.topic, 0, offset, output.key, output.value, output.headers)


def test_the_last_record_of_a_training_counts_and_the_newest_training_is_first() -> None:
    messages = [
        build_training_message(TOPICS.models, training)
        for training in (
            make_training("med-v1", result="running"),
            make_training("med-v2", minute=5),
            make_training("med-v1"),
            make_training("law-v1", dataset="law"),
        )
    ]
    trainings = Trainings(to_record(message, offset) for offset, message in enumerate(messages))
    assert [(each.model, each.result) for each in trainings.list_newest_first("med")] == [
        ("med-v2", "used"),
        ("med-v1", "used"),
    ]
    trainings.apply_records(
        [Record(TOPICS.models, 0, 9, b"med/med-v2", None), Record(TOPICS.models, 0, 10, None, b"{}")]
    )
    assert [each.model for each in trainings.list_newest_first("med")] == ["med-v1"]


def test_a_record_that_can_not_be_read_leaves_the_others() -> None:
    good = to_record(build_training_message(TOPICS.models, make_training("med-v1")), 0)
    newer = Record(TOPICS.models, 0, 1, b"med/med-v2", b'{"result": "something new"}')
    assert [each.model for each in Trainings([good, newer]).list_newest_first("med")] == ["med-v1"]


def test_the_view_follows_the_topic(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.sqlite", TOPICS)) as log:
        view, stop = TrainingView(log, TOPICS.models), threading.Event()
        assert TrainingView(log, TOPICS.models).caught_up is False
        log.append([build_training_message(TOPICS.models, make_training("med-v1", result="running"))])
        assert len(view.step()) == 1
        assert view.caught_up
        log.append([build_training_message(TOPICS.models, make_training("med-v1"))])
        view.step()
        assert [each.result for each in view.list_trainings("med")] == ["used"]
        assert view.list_trainings("law") == ()
        stop.set()
        view.run(stop)


def test_a_request_is_pending_until_a_training_takes_it() -> None:
    request = create_request("med")
    trainings = Trainings([to_record(build_request_message(TOPICS.models, request), 4)])
    assert trainings.find_request("med") == request
    assert trainings.get_request_state("med").position == (0, 4)
    assert (trainings.find_request("law"), trainings.list_newest_first("med")) == (None, ())

    def apply(result: str) -> None:
        training = make_training("med-v1", result=result, request=request.id)
        trainings.apply_records([to_record(build_training_message(TOPICS.models, training), 5)])

    apply("stopped")  # the next trainer takes it again
    assert trainings.find_request("med") == request
    apply("failed")
    assert trainings.find_request("med") is None
    trainings.apply_records([Record(TOPICS.models, 0, 6, b"med/@request", b"{}")])
    assert trainings.get_request_state("med") == (None, (0, 6))


def test_of_two_requests_at_the_same_moment_one_is_written(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.sqlite", TOPICS)) as log:
        state = Trainings().get_request_state("med")
        first = create_request("med")
        write_request(log, TOPICS.models, first, state)
        write_request(log, TOPICS.models, create_request("med"), state)
        assert Trainings(log.read(TOPICS.models, 0, 10)).find_request("med") == first
