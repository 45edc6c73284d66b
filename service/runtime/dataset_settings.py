"""The dataset settings in the log, for commands: read them, or build the registry that judges with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.datasets.registry import DatasetRegistry
from service.datasets.settings_records import LatestSettings, get_dataset_name
from service.log.read import read_topic

if TYPE_CHECKING:
    from service.contracts import DatasetSettings
    from service.inference.model.pool import ModelPool
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.settings import Settings


def read_dataset_settings(log: Log, topics: Topics) -> dict[str, DatasetSettings]:
    """Reads the newest readable settings of each dataset, whether they fit a model or not."""
    latest: dict[str, LatestSettings] = {}
    for record in read_topic(log, topics.datasets):
        name = get_dataset_name(record)
        latest[name] = latest.get(name, LatestSettings()).apply(record)
    return {name: entry.settings for name, entry in latest.items() if entry.settings is not None}


def load_datasets(settings: Settings, models: ModelPool, log: Log, topics: Topics) -> DatasetRegistry:
    """Builds the registry that a worker with these models has after it has read the datasets topic."""
    datasets = build_datasets(settings, models)
    datasets.apply_records(read_topic(log, topics.datasets))
    return datasets


def build_datasets(settings: Settings, models: ModelPool) -> DatasetRegistry:
    limits = settings.worker
    return DatasetRegistry(
        models, max_datasets=limits.max_datasets, min_words=limits.min_words, prior_words=limits.prior_words
    )
