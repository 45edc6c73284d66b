"""`labelwatch datasets list|show|set|delete`: how each dataset is judged, as the datasets topic tells every process."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from service.cli.shared.tables import render_table
from service.cli.shared.terminal import STDOUT, sanitize
from service.contracts import DatasetSettings
from service.contracts.validation import to_decode_error
from service.datasets.registry import LatestSettings, parse_settings
from service.errors import DecodeError, InvalidInput, LabelwatchError, SettingsError
from service.judging.judge import Judge
from service.runtime.dataset_settings import load_datasets, read_latest_settings, write_settings
from service.runtime.load_model import load_model_folder
from service.runtime.open_log import build_topics, open_existing_log, open_log
from service.runtime.read_state import read_state
from service.settings import read_settings
from service.stream.state.snapshot import StatsKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.inference.model.folder import ModelFolder
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.settings import Settings

STDIN = STDOUT  # both are called `-`
LABEL_MAP_FIELD = "label_map"  # values of others are read as JSON where they are JSON
NESTED_FIELDS = (LABEL_MAP_FIELD, "flag_policy")
READ_ONLY_FIELDS = {
    "name": "a dataset can't be renamed",
    "version": "it grows by itself",
    "epoch": "use `labelwatch thresholds reset`",
}

DatasetArgument = Annotated[str, typer.Argument(metavar="NAME", help="The dataset.")]
AssignmentsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]…",
        help="Such as control_share=0.01, method=product, label_map.PERSON=PER, flag_policy.kind=budget, "
        "forget_after_days=null. A mapping without a value is taken out: label_map.PERSON=",
    ),
]
FileOption = Annotated[
    str | None,
    typer.Option(
        "--file", metavar="FILE", help="All settings at once, as a JSON object; what it leaves out is as by default."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="As one JSON object.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]

datasets_app = typer.Typer(help="How each dataset is judged.", no_args_is_help=True)


@datasets_app.command("list")
def list_datasets(as_json: JsonOption = False) -> None:
    """List the datasets: those that are set up, and those that sentences have come of."""
    settings = read_settings()
    topics, folder = build_topics(settings), load_model_folder(settings)
    with open_existing_log(settings) as stream:
        known = load_datasets(settings, folder, stream, topics)
        learned = {account.dataset for account in read_state(stream, topics).snapshot.totals}
    names = sorted({*known.names, *known.refused_settings, *learned})
    found = [(known.get_judge(name).settings, known.refused_settings.get(name)) for name in names]
    if as_json:
        views = [{**one.model_dump(mode="json"), "problem": problem} for one, problem in found]
        typer.echo(json.dumps({"datasets": views}, ensure_ascii=False))
        return
    rows = [
        [
            one.name,
            str(one.version),
            str(one.epoch),
            " ".join(str(value) for value in one.flag_policy.model_dump().values()),
            f"{one.method}, {one.token_score}",
            f"{len(one.label_map)}",
            f"{one.control_share:g}",
        ]
        for one, _ in found
    ]
    if not rows:
        typer.echo("no dataset is set up, and nothing is learned yet")
        return
    head = ["dataset", "version", "epoch", "flags", "score", "mapped labels", "control"]
    typer.echo(render_table(head, rows, right_aligned=(1, 2, 5, 6)))
    for name, problem in sorted(known.refused_settings.items()):
        typer.echo(sanitize(f"{name}: newer settings are not in force: {problem}"))


@datasets_app.command()
def show(name: DatasetArgument) -> None:
    """Show a dataset's settings in force, as JSON that `datasets set NAME --file` takes."""
    settings = read_settings()
    topics, folder = build_topics(settings), load_model_folder(settings)
    with open_existing_log(settings) as stream:
        known = load_datasets(settings, folder, stream, topics)
        names = {
            *known.names,
            *known.refused_settings,
            *(one.dataset for one in read_state(stream, topics).snapshot.totals),
        }
    if name not in names:
        _raise_unknown_dataset(name, names)
    typer.echo(json.dumps(known.get_judge(name).settings.model_dump(mode="json"), ensure_ascii=False, indent=2))
    if name in known.refused_settings:
        typer.echo(sanitize(f"labelwatch: newer settings are not in force: {known.refused_settings[name]}"), err=True)


@datasets_app.command("set")
def set_dataset(name: DatasetArgument, assignments: AssignmentsArgument = None, file: FileOption = None) -> None:
    """Change some of a dataset's settings, or all of them; workers follow within a second or two."""
    if bool(assignments) == (file is not None):
        raise typer.BadParameter("give either settings, such as control_share=0.01, or --file", param_hint="KEY=VALUE")
    settings = read_settings()
    topics, folder = build_topics(settings), load_model_folder(settings)
    _build_judge({"name": name}, settings, folder)
    asked = _read_settings_file(file) if file is not None else None
    with closing(open_log(settings)) as stream:
        # As they were written, so that fields of a newer version survive a change of others.
        latest = read_latest_settings(stream, topics).get(name, LatestSettings())
        before: dict[str, Any] = json.loads(latest.value or b"{}")
        old = DatasetSettings.model_validate({**before, "name": name})
        fields = _apply_assignments(before, assignments or ()) if asked is None else _replace_settings(old, asked)
        fields |= {"name": name, "version": old.version + 1, "epoch": old.epoch}
        judge = _build_judge(fields, settings, folder, ignored_fields=set(before) - set(DatasetSettings.model_fields))
        if judge.settings.ranker_epoch < old.ranker_epoch:
            raise InvalidInput(f"it is {old.ranker_epoch} and can only grow", field="ranker_epoch")
        try:
            anew = _is_statistics_reset(stream, topics, _build_judge(old.model_dump(), settings, folder), judge)
        except InvalidInput:  # those before don't fit this model
            anew = False
        write_settings(stream, topics, fields, latest)
    typer.echo(f"{name}: settings version {fields['version']} is written to {topics.datasets}")
    if anew:
        typer.echo(f"other classes are judged now, so that the statistics of {name} start anew")


@datasets_app.command()
def delete(name: DatasetArgument, yes: YesOption = False) -> None:
    """Take a dataset's settings back: it is judged with the defaults. What was learned stays."""
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as stream:
        known = {
            one: latest for one, latest in read_latest_settings(stream, topics).items() if latest.value is not None
        }
        if name not in known:
            _raise_unknown_dataset(name, known)
        old = DatasetSettings.model_validate_json(known[name].value or b"{}")
        if not yes:
            typer.confirm(f"Take back all settings of {name}?", abort=True)
        # What only grows stays: an epoch that was used before would bring back what was learned in it.
        kept = {"name": name, "version": old.version + 1, "epoch": old.epoch, "ranker_epoch": old.ranker_epoch}
        write_settings(stream, topics, kept, known[name])
    typer.echo(f"{name} is judged with the default settings, as version {old.version + 1}")


# -- what is asked for -------------------------------------------------------------------------------------------------


def _apply_assignments(before: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The settings with the changes of the command line."""
    fields = dict(before)
    kinds = [text for key, _, text in (one.partition("=") for one in assignments) if key == "flag_policy.kind"]
    if kinds and kinds[-1] != _get_nested(fields, "flag_policy").get("kind"):
        fields["flag_policy"] = {}  # each kind has fields of its own
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        key, dot, inner = key.partition(".")
        if not key or not equals or (dot and not inner):
            raise typer.BadParameter(f"{assignment!r} is not KEY=VALUE, such as control_share=0.01")
        _check_settable(key)
        if dot and key not in NESTED_FIELDS:
            raise InvalidInput(f"it has no fields of its own: write {key}=…", field=f"{key}.{inner}")
        if not dot:
            fields[key] = {"kind": text} if key == "flag_policy" and text.isalpha() else _parse_value(key, text)
        elif key == LABEL_MAP_FIELD and not text:
            fields[key] = {label: of for label, of in _get_nested(fields, key).items() if label != inner}
        else:
            fields[key] = {**_get_nested(fields, key), inner: _parse_value(key, text)}
    return fields


def _get_nested(fields: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = fields.get(key)
    return found if isinstance(found, dict) else {}


def _check_settable(key: str) -> None:
    if key in READ_ONLY_FIELDS:
        raise InvalidInput(READ_ONLY_FIELDS[key], field=key)
    if key not in DatasetSettings.model_fields:
        parse_settings({key: None})  # says that there is no such setting, and which there are


def _parse_value(key: str, text: str) -> object:
    """What stands behind the equals sign: JSON, or text that needs no quotes."""
    if key == LABEL_MAP_FIELD and not text.startswith("{"):
        return text
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except (ValueError, RecursionError):
        return text


def _read_settings_file(file: str) -> dict[str, Any]:
    try:
        text = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"--file: can't read {file}: {error.strerror or error}") from error
    try:
        found = json.loads(text, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise to_decode_error(text, error, what=file) from error
    if not isinstance(found, dict):
        raise DecodeError(f"{file} holds no JSON object")
    return found


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _replace_settings(old: DatasetSettings, requested: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file. One that was shown before must be the newest still: somebody else may have been quicker."""
    if requested.get("name", old.name) != old.name:
        raise InvalidInput(f"the file is of {requested['name']!r}, not of {old.name!r}", field="name")
    if requested.get("version", old.version) != old.version:
        raise InvalidInput(
            f"the file changes version {requested['version']}, the newest is {old.version}: show it again, or leave the "
            "version out",
            field="version",
        )
    if requested.get("epoch", old.epoch) != old.epoch:
        raise InvalidInput(f"it is {old.epoch}: {READ_ONLY_FIELDS['epoch']}", field="epoch")
    return {"ranker_epoch": old.ranker_epoch, **requested}


def _build_judge(
    fields: Mapping[str, Any], settings: Settings, folder: ModelFolder, *, ignored_fields: Iterable[str] = ()
) -> Judge:
    """A judge with these settings, or an error that names the field. `foreign` fields are not ours to judge."""
    limits = settings.worker
    made = parse_settings({key: value for key, value in fields.items() if key not in ignored_fields})
    for key, value in fields.items():
        try:
            json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        except ValueError as error:
            raise InvalidInput(f"it can't be written as JSON: {error}", field=key) from None
    try:
        return Judge(folder, made, min_words=limits.min_words, prior_words=limits.prior_words)
    except InvalidInput as error:
        field = LABEL_MAP_FIELD if error.field == "mapping" else error.field
        raise InvalidInput(error.problem, field=field) from error
    except LabelwatchError as error:
        raise InvalidInput(f"the model {folder.name} can't judge with these settings: {error}") from error


def _is_statistics_reset(stream: Log, topics: Topics, old: Judge, new: Judge) -> bool:
    """Whether the settings leave behind what was learned."""
    if old.stats_key == new.stats_key:
        return False
    return StatsKey(old.settings.name, old.stats_key) in read_state(stream, topics).snapshot.totals


def _raise_unknown_dataset(name: str, names: Iterable[str]) -> NoReturn:
    known = ", ".join(sorted(names)) or "none yet"
    raise InvalidInput(f"{name!r} is not known: the datasets are {known}", field="dataset")
