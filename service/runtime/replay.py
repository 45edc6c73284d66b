"""A replay: a worker that assesses the input again, into topics with a prefix of its own beside the live ones."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from service.datasets.changes import merge_settings
from service.datasets.label_fit import check_model_fits
from service.datasets.registry import check_dataset_exists
from service.datasets.settings_records import build_settings_message
from service.errors import SettingsError
from service.judging.class_source import is_external_key
from service.log.codec import to_position_key, to_position_value
from service.log.protocol import Output
from service.log.read import read_compacted_topic
from service.log.sqlite.admin import describe_log_file
from service.runtime.datasets.settings import build_datasets, load_datasets
from service.runtime.lifecycle.process import stop_on_signals
from service.runtime.worker import RunToEndWorker, build_worker
from service.stream.state.reader import read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.inference.model.pool import ModelPool
    from service.log.protocol import Log, WorkerSession
    from service.log.topics import Topics
    from service.settings import Settings

OffsetRanges = dict[int, tuple[int, int]]

EMBEDDED_LOG_PARTITION = 0  # the embedded log has one
COPY_BATCH_SIZE = 500


class ReplayWorker(RunToEndWorker):
    """Reports how many records each step has processed."""

    on_progress: Callable[[int], object]

    def step(self) -> int:
        processed = super().step()
        self.on_progress(processed)
        return processed


def read_offset_ranges(settings: Settings, topics: Topics) -> OffsetRanges:
    """First and next offset of each partition of the input."""
    if settings.kafka is None:
        reports = describe_log_file(settings.log.path, topics)
        report = next(report for report in reports if report.name == topics.sentences)
        return {EMBEDDED_LOG_PARTITION: (report.first_offset, report.next_offset)}
    from service.log.kafka.admin import fetch_offset_ranges

    ranges = fetch_offset_ranges(settings.kafka, topics.sentences)
    if not ranges:
        raise SettingsError(f"there is no topic {topics.sentences}: run `labelwatch topics create`")
    return ranges


def build_model_choice(
    settings: Settings, models: ModelPool, log: Log, live: Topics, topics: Topics, *, dataset: str, model: str
) -> Output:
    """The live settings of the dataset with another model, as a record for the replay. The same settings give the same value."""
    registry, snapshot = load_datasets(settings, models, log, live), read_state(log, live).snapshot
    check_dataset_exists(dataset, registry.list_names(snapshot.datasets))
    state = registry.get_settings_state(dataset)
    change = merge_settings(state, {"model": model}, build_judge=registry.build_judge)
    check_model_fits(change, snapshot.get_arrivals(dataset).total)
    return build_settings_message(topics.datasets, change.fields)


def copy_settings_and_decisions(
    source: Log, live: Topics, target: Log, topics: Topics, *, replacements: Sequence[Output] = ()
) -> None:
    """Copies the live dataset settings and decisions to the topics of the replay, as far as they differ.

    `replacements`: settings that the replay has instead of the live ones.
    """
    _copy_compacted_topic(source, live.datasets, target, topics.datasets, replacements)
    _copy_compacted_topic(source, live.decisions, target, topics.decisions)


def _copy_compacted_topic(
    source: Log, source_topic: str, target: Log, target_topic: str, replacements: Sequence[Output] = ()
) -> None:
    existing = read_compacted_topic(target, target_topic)
    outputs = {
        key: Output(target_topic, key, record.value, record.headers)
        for key, record in read_compacted_topic(source, source_topic).items()
    }
    outputs.update({output.key or b"": output for output in replacements})
    missing = [output for key, output in outputs.items() if key not in existing or existing[key].value != output.value]
    for start in range(0, len(missing), COPY_BATCH_SIZE):
        target.append(missing[start : start + COPY_BATCH_SIZE])


def read_replay_positions(settings: Settings, models: ModelPool, log: Log, topics: Topics) -> dict[int, int]:
    """Where an interrupted replay stopped, by partition; empty for a new one. It must be of the same model."""
    state = read_state(log, topics)
    datasets = load_datasets(settings, models, log, topics)
    for key in state.snapshot.keys:
        if is_external_key(key.stats_key):  # no model computed these probabilities
            continue
        current = datasets.get_judge(key.dataset).stats_key
        if _get_model_part(key.stats_key) != _get_model_part(current):
            raise SettingsError(
                f"{topics.prefix}* was made with another model or other dataset settings: choose another --to-prefix"
            )
    return dict(state.positions)


def _get_model_part(stats_key: str) -> str:
    """The key without its epoch."""
    return stats_key.partition("/")[0]


def write_start_positions(log: Log, topics: Topics, starts: Mapping[int, int]) -> None:
    log.append(
        [
            Output(topics.state, to_position_key(partition), to_position_value(offset), partition=partition)
            for partition, offset in starts.items()
        ]
    )


def run_replay(
    settings: Settings,
    models: ModelPool,
    session: WorkerSession,
    topics: Topics,
    *,
    on_progress: Callable[[int], object],
) -> int:
    """Runs a worker until everything is read, or until SIGTERM or Ctrl-C. Returns the number of records."""
    datasets = build_datasets(settings, models)
    stop = threading.Event()
    with stop_on_signals(stop):
        worker = build_worker(ReplayWorker, settings, models, datasets=datasets, session=session, topics=topics)
        worker.on_progress = on_progress
        worker.run(stop)
    return worker.counts.records
