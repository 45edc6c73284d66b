"""The dataset settings in the log, for commands: read them, or build the registry that judges with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.contracts import DatasetSettings
from service.datasets.registry import DatasetRegistry, check_dataset_exists
from service.datasets.settings_records import LatestSettings, get_dataset_name
from service.log.read import read_topic
from service.runtime.open_log import build_topics, open_existing_log
from service.stream.state.reader import read_state

if TYPE_CHECKING:
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


def read_known_dataset(settings: Settings, name: str) -> DatasetSettings:
    """The settings of a dataset of the service, for commands beside it. The error names the datasets that there are."""
    topics = build_topics(settings)
    with open_existing_log(settings) as log:
        by_dataset, learned = read_dataset_settings(log, topics), read_state(log, topics).snapshot.datasets
    check_dataset_exists(name, sorted({*by_dataset, *learned}))
    return by_dataset.get(name) or DatasetSettings(name=name)


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
