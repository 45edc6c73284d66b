"""What the stream commands share: the log that the settings name, the model, topics read to their end, signals."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, SecretStr

from service.datasets.registry import DatasetRegistry, LatestSettings, build_settings_message
from service.errors import InvalidInput, ModelError, SettingsError, StateError, StreamError
from service.file_lock import FileLock
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.log.codec import parse_position, parse_state_key
from service.log.protocol import VersionConflict
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.retention import Retention
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics
from service.statistics.running import RunningStats
from service.stream.state.snapshot import StateSnapshot, StatsKey
from service.telemetry import configure_logging

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import FrameType

    from service.log.protocol import Log, Record, WorkerSession
    from service.settings import Settings

DAY_MS = 24 * 60 * 60 * 1000
POLL_INTERVAL_S = 0.05
NO_MODEL_MESSAGE = "this installation has no default model: set LABELWATCH_MODEL_FOLDER to a model folder"


def build_topics(settings: Settings) -> Topics:
    return Topics(settings.topics.prefix, settings.topics.sentences)


# -- the log -----------------------------------------------------------------------------------------------------------


def open_log(settings: Settings) -> Log:
    """Opens the log that the settings name: Kafka or the embedded one."""
    if settings.kafka is not None:
        from service.log.kafka.log import KafkaLog

        return KafkaLog(settings.kafka)
    with _embedded_log_errors(settings):
        return SqliteLog(settings.log.path, build_topics(settings))


def open_worker_session(settings: Settings, topics: Topics) -> WorkerSession:
    """Opens the log for the worker. The embedded log allows one worker per file."""
    if settings.kafka is not None:
        from service.log.kafka.session import KafkaWorkerSession

        return KafkaWorkerSession(settings.kafka, topics, group=settings.worker.group, worker_id=settings.worker.id)
    retention = Retention(max_bytes=settings.log.max_bytes, max_age_ms=int(settings.log.max_age_days * DAY_MS))
    with _embedded_log_errors(settings):
        return SqliteWorkerSession(settings.log.path, topics, retention=retention)


def open_replay_session(settings: Settings, topics: Topics) -> WorkerSession:
    """Opens the log for a replay: with a consumer group of its own on Kafka, beside the live worker on the embedded log."""
    if settings.kafka is not None:
        from service.log.kafka.session import KafkaWorkerSession

        return KafkaWorkerSession(settings.kafka, topics, group=f"{settings.worker.group}.{topics.prefix}")
    with _embedded_log_errors(settings):
        return SqliteWorkerSession(settings.log.path, topics, exclusive=False)


@contextmanager
def _embedded_log_errors(settings: Settings) -> Iterator[None]:
    """Errors name the file, and the setting that chose it."""
    path = settings.log.path
    try:
        yield
    except OSError as error:
        raise SettingsError(f"LABELWATCH_LOG_PATH: can't use {path}: {error.strerror or error}") from error
    except StreamError as error:
        raise error if str(path) in str(error) else StreamError(f"{path}: {error}") from error


@contextmanager
def open_existing_log(settings: Settings) -> Iterator[Log]:
    """Opens the log for commands that need one in use. It never creates an embedded log."""
    if settings.kafka is None and not settings.log.path.exists():
        raise SettingsError(
            f"there is no log at {settings.log.path} yet: send sentences or start a worker, or set LABELWATCH_LOG_PATH"
        )
    with contextlib.closing(open_log(settings)) as log:
        yield log


@contextmanager
def hold_state_lock(settings: Settings, topics: Topics) -> Iterator[None]:
    """Locks the state of a prefix in the embedded log for one worker or replay.

    On Kafka the generation of the consumer group ensures the same.
    """
    if settings.kafka is not None:
        yield
        return
    path = settings.log.path.with_name(f"{settings.log.path.name}.{topics.state}.lock")
    try:
        lock = FileLock(path)
    except BlockingIOError as error:
        raise StreamError(
            f"another worker or replay writes {topics.prefix}* in {settings.log.path}: stop it, "
            "or use Kafka for several workers"
        ) from error
    except OSError as error:
        raise SettingsError(f"LABELWATCH_LOG_PATH: can't create {path}: {error.strerror or error}") from error
    with lock:
        yield


def read_topic(stream: Log, topic: str) -> Iterator[Record]:
    """Every record from the beginning to the end that the topic has now."""
    with contextlib.closing(stream.follow(topic)) as follower:
        while True:
            records = follower.poll()
            yield from records
            if follower.caught_up:
                return
            if not records:
                time.sleep(POLL_INTERVAL_S)


def read_compacted_topic(stream: Log, topic: str) -> dict[bytes, Record]:
    """A compacted topic: the newest record of each key that was not removed, in the topic's order."""
    found: dict[bytes, Record] = {}
    for record in read_topic(stream, topic):
        if record.key is None:
            continue
        found.pop(record.key, None)
        if record.value is not None:
            found[record.key] = record
    return found


# -- what the log says -------------------------------------------------------------------------------------------------


def read_datasets(stream: Log, topics: Topics) -> dict[str, bytes]:
    """The dataset settings in force, by name, as they were written: the highest version of each that can be read."""
    found = read_latest_settings(stream, topics)
    return {name: latest.value for name, latest in found.items() if latest.value is not None}


def read_latest_settings(stream: Log, topics: Topics) -> dict[str, LatestSettings]:
    """What the datasets topic holds, for who is about to change it."""
    found: dict[str, LatestSettings] = {}
    for record in read_topic(stream, topics.datasets):
        name = (record.key or b"").decode(errors="replace")
        found[name] = found.get(name, LatestSettings()).apply(record)
    return found


def write_settings(stream: Log, topics: Topics, fields: Mapping[str, Any], latest: LatestSettings) -> None:
    """The one way in which commands change settings: on top of what they have read, or not at all."""
    record = build_settings_message(topics.datasets, fields, at=datetime.now(UTC))
    try:
        stream.append_if_unchanged(record, latest.position)
    except VersionConflict as error:
        raise InvalidInput(
            f"somebody else has changed the settings of {fields['name']} in the same moment: look at them with "
            f"`labelwatch datasets show {fields['name']}`, and repeat the command",
            field="version",
        ) from error


def load_datasets(settings: Settings, folder: ModelFolder, stream: Log, topics: Topics) -> DatasetRegistry:
    """The datasets as a worker with this model sees them."""
    datasets = build_datasets(settings, folder)
    datasets.apply_records(read_topic(stream, topics.datasets))
    return datasets


def build_datasets(settings: Settings, folder: ModelFolder) -> DatasetRegistry:
    limits = settings.worker
    return DatasetRegistry(
        folder, max_datasets=limits.max_datasets, min_words=limits.min_words, prior_words=limits.prior_words
    )


@dataclass(frozen=True, slots=True)
class RestoredState:
    """What the state topic holds: everybody's statistics, and where each partition goes on."""

    snapshot: StateSnapshot
    positions: dict[int, int]


def read_state(stream: Log, topics: Topics) -> RestoredState:
    ledger, positions = StateSnapshot(), {}
    for key, record in read_compacted_topic(stream, topics.state).items():
        place, value = parse_state_key(key), record.value or b""
        if place is None:
            positions[int(json.loads(key)[1])] = parse_position(value)
            continue
        partition, dataset, stats_key = place
        try:
            stats = RunningStats.restore(json.loads(value))
        except ValueError as error:
            raise StateError(f"the statistics of {dataset} in {topics.state} are not JSON: {error}") from error
        ledger = ledger.with_stats(partition, StatsKey(dataset, stats_key), stats)
    return RestoredState(ledger, positions)


# -- the model ---------------------------------------------------------------------------------------------------------


def load_model_folder(settings: Settings, folder: Path | None = None) -> ModelFolder:
    """The model folder that is named here, or by the settings, or the default one."""
    chosen = folder or settings.model.folder
    if chosen is None:
        try:
            chosen = find_default_model()
        except ModelError as error:
            raise ModelError(NO_MODEL_MESSAGE) from error
    return ModelFolder.load(chosen, precision=settings.model.precision)


# -- the process -------------------------------------------------------------------------------------------------------


def set_up_logging(settings: Settings) -> None:
    """Messages on standard error as the settings want them, without the secrets that stand in them."""
    configure_logging(settings.logs.format, settings.logs.level, secrets=_collect_secrets(settings))


def _collect_secrets(settings: BaseModel) -> Iterator[str]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            text = value.get_secret_value()
            yield text
            # Of a list each one, and of a key with its name and scope the hash itself.
            yield from (part.strip().rpartition(":")[2] for part in text.split(","))
        elif isinstance(value, BaseModel):
            yield from _collect_secrets(value)


@contextmanager
def stop_on_signals(stop: threading.Event) -> Iterator[None]:
    """The first SIGTERM or SIGINT asks to finish what is at hand; the second ends the process as if nobody listened."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
        nonlocal asked
        if asked:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        asked = True
        stop.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
