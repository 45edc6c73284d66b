"""`labelwatch replay`: assesses the input again, as with a new model, into topics beside the live ones."""

from __future__ import annotations

import re
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tqdm import tqdm

from service.cli.shared.terminal import print_stderr
from service.cli.stream.replay_report import compare_flags
from service.errors import InvalidInput, SettingsError
from service.inference.classifier import Classifier
from service.log.codec import to_position_key, to_position_value
from service.log.protocol import Output
from service.log.read import read_compacted_topic
from service.log.sqlite.admin import describe_log_file
from service.log.topics import Topics
from service.runtime.dataset_settings import build_datasets, load_datasets
from service.runtime.load_model import load_model_folder
from service.runtime.open_log import build_topics, hold_state_lock, open_existing_log, open_replay_session
from service.runtime.process import set_up_logging, stop_on_signals
from service.runtime.worker import RunToEndWorker, build_worker
from service.settings import Settings, read_settings
from service.stream.state.reader import read_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.inference.model.folder import ModelFolder
    from service.log.protocol import Log, WorkerSession

OffsetRanges = dict[int, tuple[int, int]]

PREFIX_PATTERN = re.compile(r"[a-zA-Z0-9._-]{1,64}")
EMBEDDED_LOG_PARTITION = 0  # the embedded log has one
COPY_BATCH_SIZE = 500

FromOption = Annotated[
    list[str],
    typer.Option(
        "--from",
        metavar="OFFSET",
        help="First offset of the input in every partition, or PARTITION:OFFSET for one of them. Repeatable. An "
        "interrupted replay continues where it stopped.",
    ),
]
ToPrefixOption = Annotated[
    str | None,
    typer.Option(metavar="PREFIX", help="Prefix of the topics to write. Default: derived from the model."),
]
ModelOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Model folder. Default: LABELWATCH_MODEL_FOLDER.")
]


class ReplayWorker(RunToEndWorker):
    """Updates a progress bar."""

    progress_bar: tqdm[Any]

    def step(self) -> int:
        processed = super().step()
        self.progress_bar.update(processed)
        return processed


def replay(*, start: FromOption, to_prefix: ToPrefixOption = None, model: ModelOption = None) -> None:
    """Assess the input again into topics with another prefix, and compare the flags. Live topics are only read."""
    settings = read_settings()
    set_up_logging(settings)
    live, folder = build_topics(settings), load_model_folder(settings, model)
    topics = Topics(_choose_prefix(to_prefix, live, folder), live.sentences)
    with hold_state_lock(settings, topics):
        with open_existing_log(settings) as log:
            ranges = _read_offset_ranges(settings, live)
            starts = _parse_start_offsets(start, ranges, live.sentences)
            _create_topics(settings, topics)
            with closing(open_replay_session(settings, topics)) as session:
                for source, target in ((live.datasets, topics.datasets), (live.decisions, topics.decisions)):
                    _copy_compacted_topic(log, source, session, target)
                positions = _write_start_positions(settings, folder, session, topics, starts)
                total = sum(max(0, end - positions[partition]) for partition, (_, end) in ranges.items())
                records = _run_worker(settings, folder, session, topics, total=total)
        with open_existing_log(settings) as log:
            replayed, live_read = (read_state(log, names).positions for names in (topics, live))
            bounds = {
                partition: (first, min(replayed.get(partition, 0), live_read.get(partition, 0)))
                for partition, first in starts.items()
            }
            comparison = compare_flags(log, live, topics, bounds)
    complete = all(replayed.get(partition, 0) >= end for partition, (_, end) in ranges.items())
    model_name = f"{folder.name} ({folder.fingerprint[:12]})"
    typer.echo(f"{records:,} messages assessed with {model_name} into {topics.prefix}*")
    typer.echo(comparison.to_text())
    if not complete:
        print_stderr("the end is not reached yet: the same command continues where this one stopped")


def _choose_prefix(requested: str | None, live: Topics, folder: ModelFolder) -> str:
    prefix = requested if requested is not None else f"{live.prefix}replay-{folder.fingerprint[:8]}."
    if not PREFIX_PATTERN.fullmatch(prefix):
        raise SettingsError(f"--to-prefix {prefix!r}: use 1 to 64 letters, digits, dots, dashes or underscores")
    if prefix == live.prefix:
        raise SettingsError(f"--to-prefix {prefix!r} is the prefix of the live topics: choose another")
    return prefix


def _read_offset_ranges(settings: Settings, live: Topics) -> OffsetRanges:
    """First and next offset of each partition of the input."""
    if settings.kafka is None:
        reports = describe_log_file(settings.log.path, live)
        report = next(report for report in reports if report.name == live.sentences)
        return {EMBEDDED_LOG_PARTITION: (report.first_offset, report.next_offset)}
    from service.log.kafka.admin import fetch_offset_ranges

    ranges = fetch_offset_ranges(settings.kafka, live.sentences)
    if not ranges:
        raise SettingsError(f"there is no topic {live.sentences}: run `labelwatch topics create`")
    return ranges


def _parse_start_offsets(requested: Sequence[str], ranges: Mapping[int, tuple[int, int]], topic: str) -> dict[int, int]:
    """The first offset of each partition. An offset that retention has removed becomes the first that is left."""
    default_offset = 0
    by_partition: dict[int, int] = {}
    for text in requested:
        partition_text, colon, offset = text.rpartition(":")
        if not offset.isdecimal() or (colon and not partition_text.isdecimal()):
            raise InvalidInput(f"{text!r} is neither OFFSET nor PARTITION:OFFSET", field="--from")
        if colon and int(partition_text) not in ranges:
            raise InvalidInput(f"{topic} has no partition {partition_text}", field="--from")
        if colon:
            by_partition[int(partition_text)] = int(offset)
        else:
            default_offset = int(offset)
    starts = {partition: by_partition.get(partition, default_offset) for partition in ranges}
    ends = {partition: end for partition, (_, end) in ranges.items()}
    if any(by_partition.get(partition, 0) > end for partition, end in ends.items()) or all(
        starts[partition] > end for partition, end in ends.items()
    ):
        end_text = ", ".join(f"{end}" if len(ends) == 1 else f"{partition}:{end}" for partition, end in ends.items())
        raise InvalidInput(f"past the end of {topic}, which is at {end_text}", field="--from")
    for partition, (first, end) in ranges.items():
        if starts[partition] < first < end:
            print_stderr(
                f"labelwatch: partition {partition} of {topic} begins at offset {first}: retention removed older records"
            )
        starts[partition] = min(max(starts[partition], first), end)
    return starts


def _create_topics(settings: Settings, topics: Topics) -> None:
    if settings.kafka is None:
        return
    from service.log.kafka.admin import create_topics

    sizes = settings.topics
    create_topics(
        settings.kafka, topics, partitions=sizes.partitions, replication=sizes.replication, min_isr=sizes.min_isr
    )


def _copy_compacted_topic(source: Log, source_topic: str, target: Log, target_topic: str) -> None:
    """Copies the records of a compacted topic that the target does not have yet."""
    existing = read_compacted_topic(target, target_topic)
    missing = [
        Output(target_topic, key, record.value, record.headers)
        for key, record in read_compacted_topic(source, source_topic).items()
        if key not in existing or existing[key].value != record.value
    ]
    for start in range(0, len(missing), COPY_BATCH_SIZE):
        target.append(missing[start : start + COPY_BATCH_SIZE])


def _write_start_positions(
    settings: Settings, folder: ModelFolder, log: Log, topics: Topics, starts: Mapping[int, int]
) -> dict[int, int]:
    """Writes the start of each partition that the replay has not read from yet. Returns where each one continues."""
    state = read_state(log, topics)
    datasets = load_datasets(settings, folder, log, topics)
    for statistics in state.snapshot.keys:
        classes = datasets.get_judge(statistics.dataset).stats_key.partition("/")[0]
        if statistics.stats_key.partition("/")[0] != classes:
            raise SettingsError(
                f"{topics.prefix}* was made with another model or other dataset settings: choose another --to-prefix"
            )
    if state.positions:
        positions = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(state.positions.items()))
        print_stderr(f"labelwatch: {topics.prefix}* holds a replay already, it continues at {positions}")
    new = {partition: offset for partition, offset in starts.items() if partition not in state.positions}
    log.append(
        [
            Output(topics.state, to_position_key(partition), to_position_value(offset), partition=partition)
            for partition, offset in new.items()
        ]
    )
    return {**new, **state.positions}


def _run_worker(settings: Settings, folder: ModelFolder, session: WorkerSession, topics: Topics, *, total: int) -> int:
    classifier = Classifier(folder, threads=settings.model.threads)
    stop = threading.Event()
    with (
        stop_on_signals(stop),
        tqdm(total=total, unit=" messages", file=sys.stderr, disable=not sys.stderr.isatty()) as bar,
    ):
        worker = build_worker(
            ReplayWorker,
            settings,
            classifier,
            datasets=build_datasets(settings, folder),
            session=session,
            topics=topics,
        )
        worker.progress_bar = bar
        worker.run(stop)
    return worker.counts.records
