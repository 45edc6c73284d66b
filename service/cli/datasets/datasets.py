"""`labelwatch datasets list|show|models|train|set|delete`: the settings and models of each dataset."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from service.cli.datasets.assignments import EPOCH_HINT, parse_assignments
from service.cli.datasets.audited_change import write_audited_change
from service.cli.datasets.models import request_training, show_models
from service.cli.shared.options import JsonOption, YesOption
from service.cli.shared.tables import render_table
from service.cli.shared.terminal import STDOUT, sanitize
from service.contracts.validation import to_decode_error
from service.datasets.changes import merge_settings, replace_settings
from service.datasets.label_fit import check_model_fits
from service.datasets.registry import check_dataset_exists
from service.datasets.settings_records import parse_settings
from service.datasets.waiting import WaitingDatasets, explain_waiting
from service.errors import DecodeError, InvalidInput, MissingModelError, SettingsError
from service.formats.label_sets import read_label_set
from service.labels.unknown_labels import format_names
from service.runtime.datasets.settings import load_datasets
from service.runtime.load_model import build_model_pool
from service.runtime.open_log import build_topics, open_existing_log, open_log
from service.settings import read_settings
from service.stream.state.change_effects import find_effects
from service.stream.state.reader import read_state

if TYPE_CHECKING:
    from service.contracts import DatasetSettings, FlagPolicy
    from service.datasets.registry import DatasetRegistry, SettingsState
    from service.datasets.waiting import WaitingDataset
    from service.log.protocol import Log
    from service.log.topics import Topics

STDIN = STDOUT  # both are written as `-`

DatasetArgument = Annotated[str, typer.Argument(metavar="NAME", help="The dataset.")]
AssignmentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        help="For example control_share=0.01, method=product, label_map.PERSON=PER or flag_policy.kind=budget. An "
        "empty value or null restores the default: forget_after_days=null, label_map.PERSON=",
    ),
]
FileOption = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Replace all settings with those of a JSON object; a setting that it leaves out gets its default.",
    ),
]
LabelsFromOption = Annotated[
    str | None,
    typer.Option(
        "--labels-from",
        metavar="FILE",
        help="Take the label set from a file or - (standard input): a Label Studio labelling interface (XML) or "
        "project (JSON), an Argilla dataset or question (JSON), or labelled sentences in any format.",
    ),
]
LabelsNameOption = Annotated[
    str | None,
    typer.Option(
        "--labels-name",
        metavar="NAME",
        help="With --labels-from: the control or question that counts, if there are several; in a file of sentences "
        "the column or field of the labels.",
    ),
]

datasets_app = typer.Typer(no_args_is_help=True)


@datasets_app.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the datasets that have settings, and those that sentences arrived for."""
    settings = read_settings()
    topics, models = build_topics(settings), build_model_pool(settings)
    with open_existing_log(settings) as log:
        registry = load_datasets(settings, models, log, topics)
        snapshot = read_state(log, topics).snapshot
    states = [registry.get_settings_state(name) for name in registry.list_names(snapshot.datasets)]
    waiting = {each.name: each for each in WaitingDatasets(registry.get_judge).list_all(snapshot.list_arrivals())}
    if as_json:
        views = [
            {
                **state.in_force.model_dump(mode="json"),
                "problem": state.problem or registry.find_missing_model(state.in_force.name),
                "waiting": asdict(waiting[state.in_force.name]) if state.in_force.name in waiting else None,
            }
            for state in states
        ]
        typer.echo(json.dumps({"datasets": views}, ensure_ascii=False))
        return
    if not states:
        typer.echo("no dataset has settings, and no sentences have been learned yet")
        return
    head = ["dataset", "version", "epoch", "model", "flags", "score", "mapped labels", "control", "waiting"]
    policies = [_find_flag_policy(registry, state.in_force) for state in states]
    rows = [
        _render_row(state, policy, waiting.get(state.in_force.name))
        for state, policy in zip(states, policies, strict=True)
    ]
    typer.echo(render_table(head, rows, right_aligned=(1, 2, 6, 7, 8)))
    for each in waiting.values():
        typer.echo(sanitize(explain_waiting(each)))
    for name, problem in sorted(registry.refused_settings.items()):
        typer.echo(sanitize(f"{name}: newer settings are not in force: {problem}"))
    for missing in filter(None, (registry.find_missing_model(state.in_force.name) for state in states)):
        typer.echo(sanitize(missing))


def _find_flag_policy(registry: DatasetRegistry, settings: DatasetSettings) -> FlagPolicy | None:
    """The policy in force: where the settings have none, it is that of the model, which may be missing."""
    try:
        return registry.build_judge(settings).flag_policy
    except MissingModelError:
        return settings.flag_policy


def _render_row(state: SettingsState, policy: FlagPolicy | None, waiting: WaitingDataset | None) -> list[str]:
    settings = state.in_force
    return [
        settings.name,
        str(settings.version),
        str(settings.epoch),
        settings.model or "default",
        "" if policy is None else " ".join(str(value) for value in policy.model_dump().values()),
        f"{settings.method}, {settings.token_score}",
        f"{len(settings.label_map)}",
        f"{settings.control_share:g}",
        "" if waiting is None else f"{waiting.sentences:,}",
    ]


@datasets_app.command()
def show(name: DatasetArgument) -> None:
    """Show a dataset's settings in force, as JSON that `datasets set NAME --file` reads."""
    settings = read_settings()
    topics, models = build_topics(settings), build_model_pool(settings)
    with open_existing_log(settings) as log:
        registry = load_datasets(settings, models, log, topics)
        check_dataset_exists(name, registry.list_names(_read_learned_names(log, topics)))
    state = registry.get_settings_state(name)
    typer.echo(json.dumps(state.in_force.model_dump(mode="json"), ensure_ascii=False, indent=2))
    if state.problem is not None:
        typer.echo(sanitize(f"labelwatch: newer settings are not in force: {state.problem}"), err=True)


@datasets_app.command()
def models(name: DatasetArgument, as_json: JsonOption = False) -> None:
    """Show which model a dataset uses, when the next one is trained, and what came of earlier trainings."""
    show_models(name, as_json=as_json)


@datasets_app.command()
def train(name: DatasetArgument) -> None:
    """Ask the trainer of the service to train the dataset's model now, whatever its schedule says."""
    request_training(name)


@datasets_app.command("set")
def set_dataset(
    name: DatasetArgument,
    assignments: AssignmentsArgument = None,
    file: FileOption = None,
    labels_from: LabelsFromOption = None,
    labels_name: LabelsNameOption = None,
) -> None:
    """Change some of a dataset's settings, or replace all of them. Workers follow within a second or two."""
    if labels_name is not None and labels_from is None:
        raise typer.BadParameter("give --labels-from too", param_hint="--labels-name")
    if (bool(assignments) or labels_from is not None) == (file is not None):
        raise typer.BadParameter(
            "give either settings, such as control_share=0.01 or --labels-from, or --file", param_hint="KEY=VALUE"
        )
    settings = read_settings()
    topics, models = build_topics(settings), build_model_pool(settings)
    parse_settings({"name": name})  # an invalid name is refused before an embedded log is created
    new_settings = _read_settings_file(file) if file is not None else None
    changes = parse_assignments(assignments or ())
    label_set = None if labels_from is None else read_label_set(labels_from, name=labels_name)
    if label_set is not None:
        if "label_set" in changes:
            raise typer.BadParameter("--labels-from sets it already: give one of both", param_hint="label_set")
        changes["label_set"] = list(label_set.types)
    with closing(open_log(settings)) as log:
        registry = load_datasets(settings, models, log, topics)
        state = registry.get_settings_state(name)
        if new_settings is None:
            change = merge_settings(state, changes, build_judge=registry.build_judge)
        else:
            if new_settings.get("epoch", state.in_force.epoch) != state.in_force.epoch:
                raise InvalidInput(f"it is {state.in_force.epoch}: {EPOCH_HINT}", field="epoch")
            change = replace_settings(state, new_settings, build_judge=registry.build_judge)
        snapshot = read_state(log, topics).snapshot
        check_model_fits(change, snapshot.get_arrivals(name).total)
        write_audited_change(log, topics, change, changes if new_settings is None else new_settings)
    typer.echo(f"{name}: settings version {change.settings.version} is written to {topics.datasets}")
    if label_set is not None:
        typer.echo(sanitize(f"label set: {format_names(label_set.types)}, from {label_set.description}"))
    effects = find_effects(
        change,
        state.in_force,
        snapshot,
        names=registry.list_names(snapshot.datasets),
        build_judge=registry.build_judge,
    )
    for effect in effects:
        typer.echo(sanitize(f"{'warning: ' if effect.warning else ''}{effect.text}"))


@datasets_app.command()
def delete(name: DatasetArgument, yes: YesOption = False) -> None:
    """Restore a dataset's default settings. What was learned stays."""
    settings = read_settings()
    topics, models = build_topics(settings), build_model_pool(settings)
    with open_existing_log(settings) as log:
        registry = load_datasets(settings, models, log, topics)
        check_dataset_exists(name, registry.list_names())
        if not yes:
            typer.confirm(f"Restore the default settings of {name}?", abort=True)
        change = replace_settings(registry.get_settings_state(name), {}, build_judge=registry.build_judge)
        write_audited_change(log, topics, change, ())
    typer.echo(f"{name} is judged with the default settings, as version {change.settings.version}")


def _read_settings_file(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"--file: can't read {file}: {error.strerror or error}") from error
    try:
        fields = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise to_decode_error(text, error, subject=file) from error
    if not isinstance(fields, dict):
        raise DecodeError(f"{file} contains no JSON object")
    return fields


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _read_learned_names(log: Log, topics: Topics) -> frozenset[str]:
    return read_state(log, topics).snapshot.datasets
