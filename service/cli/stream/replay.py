"""`labelwatch replay`: the input assessed again, with a new model, into topics of its own beside the live ones."""

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
from service.runtime.read_state import read_state
from service.runtime.worker import RunToEndWorker, build_worker
from service.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.inference.model.folder import ModelFolder
    from service.log.protocol import Log, WorkerSession

OffsetRanges = dict[int, tuple[int, int]]

PREFIX_PATTERN = re.compile(r"[a-zA-Z0-9._-]{1,64}")
EMBEDDED_LOG_PARTITION = 0  # the one of the embedded log
COPY_BATCH_SIZE = 500

FromOption = Annotated[
    list[str],
    typer.Option(
        "--from",
        metavar="OFFSET",
        help="Offset of the input to start at, in every partition; or PARTITION:OFFSET, as often as needed. "
        "A replay that was interrupted goes on where it stopped.",
    ),
]
ToPrefixOption = Annotated[
    str | None,
    typer.Option(metavar="P", help="Prefix of the topics to write; without: one that is called after the model."),
]
ModelOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Model folder; without: LABELWATCH_MODEL_FOLDER.")
]


class ReplayWorker(RunToEndWorker):
    """Shows how far it is."""

    progress_bar: tqdm[Any]

    def step(self) -> int:
        done = super().step()
        self.progress_bar.update(done)
        return done


def replay(*, start: FromOption, to_prefix: ToPrefixOption = None, model: ModelOption = None) -> None:
    """Assess the input again, into a prefix of its own, and tell how the flags differ. Live topics are only read."""
    settings = read_settings()
    set_up_logging(settings)
    live, folder = build_topics(settings), load_model_folder(settings, model)
    topics = Topics(_choose_prefix(to_prefix, live, folder), live.sentences)
    with hold_state_lock(settings, topics):
        with open_existing_log(settings) as log:
            ranges = _read_offset_ranges(settings, live)
            starts = _parse_start_offsets(start, ranges, live.sentences)
            _create_topics(settings, topics)
            with closing(open_replay_session(settings, topics)) as stream:
                for one, other in ((live.datasets, topics.datasets), (live.decisions, topics.decisions)):
                    _copy_compacted_topic(log, one, stream, other)
                positions = _write_start_positions(settings, folder, stream, topics, starts)
                total = sum(max(0, end - positions[partition]) for partition, (_, end) in ranges.items())
                records = _run_worker(settings, folder, stream, topics, total=total)
        with open_existing_log(settings) as log:
            kept, before = (read_state(log, names).positions for names in (topics, live))
            bounds = {
                partition: (at, min(kept.get(partition, 0), before.get(partition, 0)))
                for partition, at in starts.items()
            }
            report = compare_flags(log, live, topics, bounds)
    whole = all(kept.get(partition, 0) >= end for partition, (_, end) in ranges.items())
    name = f"{folder.name} ({folder.fingerprint[:12]})"
    typer.echo(f"{records:,} messages assessed with {name} into {topics.prefix}*")
    typer.echo(report.to_text())
    if not whole:
        print_stderr("the end is not reached yet: the same command goes on where this one stopped")


def _choose_prefix(requested: str | None, live: Topics, folder: ModelFolder) -> str:
    prefix = requested if requested is not None else f"{live.prefix}replay-{folder.fingerprint[:8]}."
    if not PREFIX_PATTERN.fullmatch(prefix):
        raise SettingsError(f"--to-prefix {prefix!r}: use 1 to 64 letters, digits, dots, dashes or underscores")
    if prefix == live.prefix:
        raise SettingsError(f"--to-prefix {prefix!r} is the prefix of the live topics: choose another")
    return prefix


def _read_offset_ranges(settings: Settings, live: Topics) -> OffsetRanges:
    """First and next offset of the input's partitions."""
    if settings.kafka is None:
        found = next(one for one in describe_log_file(settings.log.path, live) if one.name == live.sentences)
        return {EMBEDDED_LOG_PARTITION: (found.first_offset, found.next_offset)}
    from service.log.kafka.batching import fetch_offset_ranges

    ranges = fetch_offset_ranges(settings.kafka, live.sentences)
    if not ranges:
        raise SettingsError(f"there is no topic {live.sentences}: run `labelwatch topics create`")
    return ranges


def _parse_start_offsets(requested: Sequence[str], ranges: Mapping[int, tuple[int, int]], topic: str) -> dict[int, int]:
    """Where each partition starts; offsets that are gone are left out."""
    everywhere = 0
    own: dict[int, int] = {}
    for text in requested:
        where, colon, offset = text.rpartition(":")
        if not offset.isdecimal() or (colon and not where.isdecimal()):
            raise InvalidInput(f"{text!r} is neither OFFSET nor PARTITION:OFFSET", field="--from")
        if colon and int(where) not in ranges:
            raise InvalidInput(f"{topic} has no partition {where}", field="--from")
        if colon:
            own[int(where)] = int(offset)
        else:
            everywhere = int(offset)
    starts = {partition: own.get(partition, everywhere) for partition in ranges}
    ends = {partition: end for partition, (_, end) in ranges.items()}
    if any(own.get(partition, 0) > end for partition, end in ends.items()) or all(
        starts[partition] > end for partition, end in ends.items()
    ):
        told = ", ".join(f"{end}" if len(ends) == 1 else f"{partition}:{end}" for partition, end in ends.items())
        raise InvalidInput(f"past the end of {topic}, which is at {told}", field="--from")
    for partition, (first, end) in ranges.items():
        if starts[partition] < first < end:
            print_stderr(
                f"labelwatch: partition {partition} of {topic} begins at offset {first}: what was before is gone"
            )
        starts[partition] = min(max(starts[partition], first), end)
    return starts


def _create_topics(settings: Settings, topics: Topics) -> None:
    if settings.kafka is None:
        return
    from service.log.kafka.admin import create_topics

    asked = settings.topics
    create_topics(
        settings.kafka, topics, partitions=asked.partitions, replication=asked.replication, min_isr=asked.min_isr
    )


def _copy_compacted_topic(source: Log, source_topic: str, target: Log, target_topic: str) -> None:
    """What a compacted topic holds, as far as the other does not hold it yet."""
    there = read_compacted_topic(target, target_topic)
    missing = [
        Output(target_topic, key, record.value, record.headers)
        for key, record in read_compacted_topic(source, source_topic).items()
        if key not in there or there[key].value != record.value
    ]
    for start in range(0, len(missing), COPY_BATCH_SIZE):
        target.append(missing[start : start + COPY_BATCH_SIZE])


def _write_start_positions(
    settings: Settings, folder: ModelFolder, stream: Log, topics: Topics, starts: Mapping[int, int]
) -> dict[int, int]:
    """Where each partition goes on: positions that the prefix has already, else the asked ones, which are written."""
    kept = read_state(stream, topics)
    datasets = load_datasets(settings, folder, stream, topics)
    for account in kept.snapshot.totals:
        made = datasets.get_judge(account.dataset).stats_key.partition("/")[0]
        if account.stats_key.partition("/")[0] != made:
            raise SettingsError(
                f"{topics.prefix}* was made with another model or other dataset settings: choose another --to-prefix"
            )
    if kept.positions:
        told = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(kept.positions.items()))
        print_stderr(f"labelwatch: {topics.prefix}* holds a replay already, it goes on at {told}")
    new = {partition: offset for partition, offset in starts.items() if partition not in kept.positions}
    stream.append(
        [
            Output(topics.state, to_position_key(partition), to_position_value(offset), partition=partition)
            for partition, offset in new.items()
        ]
    )
    return {**new, **kept.positions}


def _run_worker(settings: Settings, folder: ModelFolder, stream: WorkerSession, topics: Topics, *, total: int) -> int:
    classifier = Classifier(folder, threads=settings.model.threads)
    stop = threading.Event()
    with (
        stop_on_signals(stop),
        tqdm(total=total, unit=" messages", file=sys.stderr, disable=not sys.stderr.isatty()) as bar,
    ):
        worker = build_worker(
            ReplayWorker, settings, classifier, datasets=build_datasets(settings, folder), session=stream, topics=topics
        )
        worker.progress_bar = bar
        worker.run(stop)
    return worker.counts.records
