"""Opens the log that the settings name, for commands, workers and replays."""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from service.errors import SettingsError, StreamError
from service.file_lock import FileLock
from service.log.sqlite.database import BUSY_TIMEOUT_S
from service.log.sqlite.integrity import describe_missing_log
from service.log.sqlite.log import SqliteLog
from service.log.sqlite.retention import Retention
from service.log.sqlite.session import SqliteWorkerSession
from service.log.topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Log, WorkerSession
    from service.settings import Settings

logger = logging.getLogger(__name__)

DAY_MS = 24 * 60 * 60 * 1000


def build_topics(settings: Settings) -> Topics:
    return Topics(settings.topics.prefix, settings.topics.sentences)


def create_topics(settings: Settings, topics: Topics) -> list[str]:
    """Creates the missing topics on Kafka and returns their names. The embedded log needs none."""
    if settings.kafka is None:
        return []
    from service.log.kafka import admin

    sizes = settings.topics
    return admin.create_topics(
        settings.kafka,
        topics,
        partitions=sizes.partitions,
        replication=sizes.replication,
        min_isr=sizes.min_isr,
        audit_ms=int(sizes.audit_days * DAY_MS),
    )


def open_log(settings: Settings) -> Log:
    """Opens the log that the settings name: Kafka or the embedded one."""
    if settings.kafka is not None:
        from service.log.kafka.log import KafkaLog

        return KafkaLog(settings.kafka)
    with _translate_embedded_log_errors(settings):
        return SqliteLog(settings.log.path, build_topics(settings), reserve_bytes=settings.log.reserve_bytes)


def compute_max_append_s(settings: Settings) -> float:
    """The longest time from the start of an append until its messages are in the log, or never will be."""
    if settings.kafka is not None:
        from service.log.kafka import clients

        return clients.compute_max_append_s(settings.kafka)
    return 2 * BUSY_TIMEOUT_S  # another thread's append may go first: each waits so long for a locked file


def open_worker_session(settings: Settings, topics: Topics) -> WorkerSession:
    """Opens the log for the worker. The embedded log allows one worker per file."""
    if settings.kafka is not None:
        from service.log.kafka.worker.session import KafkaWorkerSession

        return KafkaWorkerSession(settings.kafka, topics, group=settings.worker.group, worker_id=settings.worker.id)
    retention = Retention(
        max_bytes=settings.log.max_bytes,
        max_age_ms=int(settings.log.max_age_days * DAY_MS),
        max_audit_age_ms=int(settings.topics.audit_days * DAY_MS),
    )
    with _translate_embedded_log_errors(settings):
        return SqliteWorkerSession(
            settings.log.path, topics, retention=retention, reserve_bytes=settings.log.reserve_bytes
        )


def open_replay_session(settings: Settings, topics: Topics) -> WorkerSession:
    """Opens the log for a replay: with a consumer group of its own on Kafka, beside the live worker on the embedded log."""
    if settings.kafka is not None:
        from service.log.kafka.worker.session import KafkaWorkerSession

        return KafkaWorkerSession(settings.kafka, topics, group=f"{settings.worker.group}.{topics.prefix}")
    with _translate_embedded_log_errors(settings):
        return SqliteWorkerSession(settings.log.path, topics, exclusive=False)


def describe_missing_embedded_log(settings: Settings) -> str:
    """That the embedded log is gone, although other files of it are there; empty if it is not."""
    if settings.kafka is not None:
        return ""
    return describe_missing_log(settings.log.path, (settings.queue_path, settings.deliveries_path))


def warn_of_missing_log(settings: Settings) -> None:
    """For commands that begin an empty log: it lets everybody in, and nobody may have meant to begin one."""
    if missing := describe_missing_embedded_log(settings):
        logger.warning(
            "%s. This start begins an empty log: stop labelwatch first; a restore then needs --replace", missing
        )


@contextmanager
def _translate_embedded_log_errors(settings: Settings) -> Iterator[None]:
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
    with closing(open_log(settings)) as log:
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
