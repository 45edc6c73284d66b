"""The lease that lets one trainer, or one sender of webhooks, of an installation work at a time. The others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from service.errors import SettingsError
from service.file_lock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

    from service.settings import Settings


class Lease(Protocol):
    @property
    def is_held(self) -> bool:
        """Whether this process has the lease now. If not, it may get it later."""

    def close(self) -> None: ...


class FileLease:
    """A lock on a file beside the embedded log. It is taken when it is free and asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: FileLock | None = None

    @property
    def is_held(self) -> bool:
        if self._lock is None:
            try:
                self._lock = FileLock(self._path)
            except BlockingIOError:
                return False
            except OSError as error:
                raise SettingsError(
                    f"LABELWATCH_LOG_PATH: can't create {self._path}: {error.strerror or error}"
                ) from error
        return True

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()


def open_lease(settings: Settings, topic: str, *, name: str) -> Lease:
    """On Kafka the holder owns the partition of `topic` in a group of its own."""
    if settings.kafka is None:
        return FileLease(settings.log.path.with_name(f"{settings.log.path.name}.{topic}.lock"))
    from service.log.kafka.group_lease import GroupLease

    return GroupLease(settings.kafka, topic, group=f"{settings.worker.group}-{name}")
