from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.errors import SettingsError, StreamError
from service.log.kafka.log import KafkaLog
from service.log.kafka.worker.session import KafkaWorkerSession
from service.log.protocol import Output
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.runtime.open_log import (
    build_topics,
    compute_max_append_s,
    hold_state_lock,
    open_existing_log,
    open_log,
    open_replay_session,
    open_worker_session,
)
from service.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"log": {"path": tmp_path / "log.sqlite"}})


@pytest.fixture
def kafka_settings() -> Settings:
    return Settings.model_validate({"kafka": {"bootstrap_servers": "127.0.0.1:9"}})


def test_an_append_may_take_as_long_as_its_time_outs(settings: Settings) -> None:
    assert compute_max_append_s(settings) == 60
    for request_ms, expected_s in ((15_000, 60), (40_000, 120)):
        kafka = {"bootstrap_servers": "b:9092", "request_timeout_ms": request_ms}
        assert compute_max_append_s(Settings.model_validate({"kafka": kafka})) == expected_s


def test_only_a_worker_opens_a_session_on_kafka(kafka_settings: Settings) -> None:
    with closing(open_log(kafka_settings)) as log:
        assert type(log) is KafkaLog
    with closing(open_worker_session(kafka_settings, build_topics(kafka_settings))) as session:
        assert type(session) is KafkaWorkerSession


def test_only_a_worker_opens_a_session_on_the_embedded_log(settings: Settings) -> None:
    topics = build_topics(settings)
    with closing(open_worker_session(settings, topics)), closing(open_log(settings)) as log:
        assert not isinstance(log, SqliteWorkerSession)
        log.append([Output(topics.sentences, b"k", b"v")])
        with pytest.raises(StreamError, match="another worker is running"):
            open_worker_session(settings, topics)
        open_replay_session(settings, Topics("replay.", topics.sentences)).close()


def test_a_log_that_does_not_exist_is_not_created_for_reading(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="there is no log at"), open_existing_log(settings):
        pass
    assert not settings.log.path.exists()
    open_log(settings).close()
    with open_existing_log(settings) as log:
        assert log.follow(build_topics(settings).datasets).poll() == []


def test_errors_name_the_file_and_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below_a_file = Settings.model_validate({"log": {"path": tmp_path / "file" / "log.sqlite"}})
    for opening in (open_log, lambda settings: open_worker_session(settings, Topics())):
        with pytest.raises(SettingsError, match=r"LABELWATCH_LOG_PATH: can't use .*log\.sqlite"):
            opening(below_a_file)
    (tmp_path / "text.sqlite").write_text("this is not a database" * 100)
    no_database = Settings.model_validate({"log": {"path": tmp_path / "text.sqlite"}})
    with pytest.raises(StreamError, match=r"text\.sqlite: the embedded log failed: file is not a database"):
        open_log(no_database)


def test_the_state_of_a_prefix_has_one_writer(settings: Settings, kafka_settings: Settings) -> None:
    live, other = Topics(), Topics("other.")
    with hold_state_lock(settings, live), hold_state_lock(settings, other):
        refused = pytest.raises(StreamError, match=r"another worker or replay writes labelwatch\.\*")
        with refused, hold_state_lock(settings, live):
            pass
    with hold_state_lock(settings, live):
        pass
    with hold_state_lock(kafka_settings, live), hold_state_lock(kafka_settings, live):
        pass  # the consumer group decides
