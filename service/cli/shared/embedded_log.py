"""What commands on the file of the embedded log share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.errors import SettingsError
from service.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from service.settings import Settings


def read_embedded_settings(purpose: str, *, section: str) -> Settings:
    """The settings, with the log embedded. `purpose` says what the command does, `section` where the docs say it for Kafka."""
    settings = read_settings()
    if settings.kafka is not None:
        raise SettingsError(
            f"LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: the log is on Kafka, and this command {purpose}: see {section} in "
            "docs/operations.md"
        )
    return settings


def check_log_exists(path: Path) -> None:
    if not path.exists():
        raise SettingsError(f"there is no log at {path}: set LABELWATCH_LOG_PATH")


@contextmanager
def name_file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"can't write {error.filename or path}: {error.strerror or error}") from error
