"""`labelwatch backup` and `labelwatch restore`: copies of the embedded log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.shared.embedded_log import check_log_exists, name_file_errors, read_embedded_settings
from service.cli.shared.terminal import check_writable, print_stderr
from service.errors import SettingsError
from service.log.sqlite.admin import describe_log_file
from service.log.sqlite.backup import back_up_log, restore_log
from service.log.sqlite.integrity import REPLACED
from service.runtime.open_log import build_topics
from service.runtime.stored_records import find_unreadable_records
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.log.sqlite.admin import TopicContent
    from service.settings import Settings

BackupArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", help="Replace an existing log. It stays beside the new one, under another name.")
]


def backup(file: BackupArgument) -> None:
    """Copy the embedded log to a file, while the service runs. The copy is of one moment, and checked.

    It holds all topics: sentences, assessments, decisions, settings and thresholds. Models are in their own folder.
    """
    settings = read_embedded_settings("copies embedded logs", section="Backup")
    path = settings.log.path
    check_log_exists(path)
    if file.exists():
        raise SettingsError(f"{file} exists: choose another name, or remove it")
    check_writable(str(file))  # a missing folder may be a disk that is not mounted: what is written there is no backup
    with name_file_errors(file):
        size = back_up_log(path, file)
    print_stderr(f"{file}: {_count_records(_describe_topics(settings, file).values())}, {size / 1e6:,.1f} MB")


def restore(file: BackupArgument, *, replace: ReplaceOption = False) -> None:
    """Put a backup in the place of the embedded log. Stop the service first."""
    settings = read_embedded_settings("copies embedded logs", section="Backup")
    path = settings.log.path
    if not file.is_file():
        raise SettingsError(f"there is no backup {file}")
    if path.exists() and file.samefile(path):
        raise SettingsError(f"{file} is the log itself")
    if path.exists() and not replace:
        raise SettingsError(f"{path} exists: use --replace, which moves it aside")
    replaced = path.with_name(f"{path.name}{REPLACED}{datetime.now(UTC):%Y%m%dT%H%M%S}") if path.exists() else None
    with name_file_errors(path):
        restore_log(file, path, replaced=replaced)
    aside = f"; the log that was there is {replaced}" if replaced else ""
    unreadable = find_unreadable_records(path, build_topics(settings))
    if unreadable.total:  # the rest is still worth having
        print_stderr(f"{pluralize(unreadable.total, 'record')} of the backup can't be read: {unreadable}")
    topics = _describe_topics(settings, path)
    print_stderr(f"{path}: {_count_records(topics.values())}{aside}")
    if topics[build_topics(settings).keys].records:
        print_stderr(
            "keys and settings are those of the backup: keys that were revoked or rotated since then are valid again. "
            "Look at `labelwatch key list`, and revoke or rotate them again"
        )


def _describe_topics(settings: Settings, path: Path) -> dict[str, TopicContent]:
    return {topic.name: topic for topic in describe_log_file(path, build_topics(settings))}


def _count_records(topics: Iterable[TopicContent]) -> str:
    return pluralize(sum(topic.records for topic in topics), "record")
