"""The dataset settings in the log, for commands: read them, write them, build the registry that judges with them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from service.datasets.registry import DatasetRegistry, LatestSettings, build_settings_message
from service.errors import InvalidInput
from service.log.protocol import VersionConflict
from service.log.read import read_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.inference.model.folder import ModelFolder
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.settings import Settings


def read_datasets(log: Log, topics: Topics) -> dict[str, bytes]:
    """Returns the settings in force by dataset, as they were written: the highest readable version of each."""
    latest_settings = read_latest_settings(log, topics)
    return {name: latest.value for name, latest in latest_settings.items() if latest.value is not None}


def read_latest_settings(log: Log, topics: Topics) -> dict[str, LatestSettings]:
    """Reads the datasets topic for a caller that is about to change it."""
    latest_settings: dict[str, LatestSettings] = {}
    for record in read_topic(log, topics.datasets):
        name = (record.key or b"").decode(errors="replace")
        latest_settings[name] = latest_settings.get(name, LatestSettings()).apply(record)
    return latest_settings


def write_settings(log: Log, topics: Topics, fields: Mapping[str, Any], latest: LatestSettings) -> None:
    """Writes settings, unless another writer has changed them since `latest` was read."""
    record = build_settings_message(topics.datasets, fields, at=datetime.now(UTC))
    try:
        log.append_if_unchanged(record, latest.position)
    except VersionConflict as error:
        raise InvalidInput(
            f"another writer has changed the settings of {fields['name']} at the same time: check them with "
            f"`labelwatch datasets show {fields['name']}`, and repeat the command",
            field="version",
        ) from error


def load_datasets(settings: Settings, folder: ModelFolder, log: Log, topics: Topics) -> DatasetRegistry:
    """Builds the registry that a worker with this model has after it has read the datasets topic."""
    datasets = build_datasets(settings, folder)
    datasets.apply_records(read_topic(log, topics.datasets))
    return datasets


def build_datasets(settings: Settings, folder: ModelFolder) -> DatasetRegistry:
    limits = settings.worker
    return DatasetRegistry(
        folder, max_datasets=limits.max_datasets, min_words=limits.min_words, prior_words=limits.prior_words
    )
