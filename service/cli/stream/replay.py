"""`labelwatch replay`: assesses the input again, for example with a new model, beside the live topics."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer
from tqdm import tqdm

from service.cli.shared.terminal import print_stderr
from service.cli.stream.replay_report import compare_flags
from service.errors import InvalidInput, SettingsError
from service.inference.model.pool import shorten_fingerprint
from service.log.topics import Topics
from service.runtime.lifecycle.process import set_up_logging
from service.runtime.load_model import build_model_pool, load_model_folder
from service.runtime.open_log import (
    build_topics,
    create_topics,
    hold_state_lock,
    open_existing_log,
    open_replay_session,
)
from service.runtime.replay import (
    build_model_choice,
    copy_settings_and_decisions,
    read_offset_ranges,
    read_replay_positions,
    run_replay,
    write_start_positions,
)
from service.settings import read_settings
from service.stream.state.reader import read_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.inference.model.folder import ModelFolder
    from service.inference.model.pool import ModelPool
    from service.log.protocol import Log, Output
    from service.runtime.replay import OffsetRanges
    from service.settings import Settings

PREFIX_PATTERN = re.compile(r"[a-zA-Z0-9._-]{1,64}")

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
    str | None,
    typer.Option(
        metavar="NAME|DIR",
        help="Model of the registry, or a model folder, instead of the default model. With --dataset: the model of the "
        "registry that judges this dataset.",
    ),
]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Judge this dataset with --model, and the others as they are. Default: all without a model.",
    ),
]


def replay(
    *,
    start: FromOption,
    to_prefix: ToPrefixOption = None,
    model: ModelOption = None,
    dataset: DatasetOption = None,
) -> None:
    """Assess the input again into topics with another prefix, and compare the flags. Live topics are only read."""
    if dataset is not None and model is None:
        raise typer.BadParameter("name the model that judges the dataset, with --model", param_hint="--dataset")
    settings = read_settings()
    set_up_logging(settings)
    live = build_topics(settings)
    if dataset is None:
        folder = load_model_folder(settings, model)
        models = build_model_pool(settings, folder)
    else:
        models = build_model_pool(settings)
        folder = models.get_folder(model)
    topics = Topics(_choose_prefix(to_prefix, live, folder), live.sentences)
    with hold_state_lock(settings, topics):
        with open_existing_log(settings) as log:
            ranges = read_offset_ranges(settings, live)
            starts = _parse_start_offsets(start, ranges, live.sentences)
            choices = []
            if dataset is not None and model is not None:
                choices.append(build_model_choice(settings, models, log, live, topics, dataset=dataset, model=model))
            records = _assess_again(settings, models, log, live, topics, choices=choices, ranges=ranges, starts=starts)
        with open_existing_log(settings) as log:
            replayed, live_read = (read_state(log, names).positions for names in (topics, live))
            bounds = {
                partition: (first, min(replayed.get(partition, 0), live_read.get(partition, 0)))
                for partition, first in starts.items()
            }
            comparison = compare_flags(log, live, topics, bounds)
    judged = "" if dataset is None else f", {dataset}"
    typer.echo(
        f"{records:,} messages assessed{judged} with {folder.name} ({shorten_fingerprint(folder.fingerprint)}) into "
        f"{topics.prefix}*"
    )
    typer.echo(comparison.to_text())
    if any(replayed.get(partition, 0) < end for partition, (_, end) in ranges.items()):
        print_stderr("the end is not reached yet: the same command continues where this one stopped")


def _assess_again(
    settings: Settings,
    models: ModelPool,
    log: Log,
    live: Topics,
    topics: Topics,
    *,
    choices: Sequence[Output],
    ranges: OffsetRanges,
    starts: Mapping[int, int],
) -> int:
    create_topics(settings, topics)
    with closing(open_replay_session(settings, topics)) as session:
        copy_settings_and_decisions(log, live, session, topics, replacements=choices)
        stopped_at = read_replay_positions(settings, models, session, topics)
        if stopped_at:
            positions = ", ".join(f"{partition}:{offset}" for partition, offset in sorted(stopped_at.items()))
            print_stderr(f"labelwatch: {topics.prefix}* holds a replay already, it continues at {positions}")
        new = {partition: offset for partition, offset in starts.items() if partition not in stopped_at}
        write_start_positions(session, topics, new)
        continue_at = {**new, **stopped_at}
        total = sum(max(0, end - continue_at[partition]) for partition, (_, end) in ranges.items())
        with tqdm(total=total, unit=" messages", file=sys.stderr, disable=not sys.stderr.isatty()) as bar:
            return run_replay(settings, models, session, topics, on_progress=bar.update)


def _choose_prefix(requested: str | None, live: Topics, folder: ModelFolder) -> str:
    prefix = requested if requested is not None else f"{live.prefix}replay-{folder.fingerprint[:8]}."
    if not PREFIX_PATTERN.fullmatch(prefix):
        raise SettingsError(f"--to-prefix {prefix!r}: use 1 to 64 letters, digits, dots, dashes or underscores")
    if prefix == live.prefix:
        raise SettingsError(f"--to-prefix {prefix!r} is the prefix of the live topics: choose another")
    return prefix


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
