"""Changes of a dataset's settings: the one implementation under REST and the command line.

    settings in force + request --merge_settings, replace_settings, raise_epoch--> SettingsChange
        --write_change--> record of the datasets topic, which every process follows

A change builds on the settings in force and is checked with the model before it is written. It is written only if the
record that it builds on is still the dataset's last one. A change that sets `model` also writes the fingerprint that the
model has here, unless it names one, so that processes with other contents under this name don't judge the dataset.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from service.datasets.settings_records import build_settings_message, parse_settings
from service.errors import ConflictError, InvalidInput, LabelwatchError, MissingModelError, VersionMismatchError
from service.log.protocol import VersionConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from service.contracts import DatasetSettings
    from service.datasets.registry import SettingsState
    from service.judging.judge import Judge
    from service.log.protocol import Output, RecordPosition

    JudgeBuilder = Callable[[DatasetSettings], Judge]

EPOCH_FIELDS = ("epoch", "ranker_epoch")  # a lower epoch would bring back what was learned before a reset
POLICY_FIELD = "flag_policy"
ANY_VERSION = "*"


class SettingsLog(Protocol):
    """The part of a log that changes need."""

    def append_if_unchanged(
        self, output: Output, expected: RecordPosition | None, *, also: Sequence[Output] = (), timeout: float = 30.0
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A checked change, ready to be written."""

    settings: DatasetSettings
    judge: Judge
    fields: Mapping[str, Any]  # the record's value: only what was set, and what only a newer labelwatch knows
    builds_on: RecordPosition | None
    names_version: bool  # whether the caller named the version to change
    chooses_model: bool = False  # whether it names a model, or contents of one, that was not in force


def replace_settings(
    state: SettingsState,
    fields: Mapping[str, Any],
    *,
    build_judge: JudgeBuilder,
    if_match: Collection[str] | None = None,
) -> SettingsChange:
    """Replaces all settings: a setting that `fields` leaves out gets its default. Only the epochs stay.

    A `version` among the fields must be the one in force. So must one of `if_match`, where `*` stands for any.
    """
    return _check_change(state, fields, {}, build_judge, if_match, pin_model=_chooses_model(fields))


def merge_settings(
    state: SettingsState,
    changes: Mapping[str, Any],
    *,
    build_judge: JudgeBuilder,
    if_match: Collection[str] | None = None,
) -> SettingsChange:
    """Changes some settings, by the rule of JSON Merge Patch (RFC 7396).

    A mapping is merged by its keys, and None takes a setting, or an entry of a mapping, back to its default. A flag
    policy of another kind replaces the one before, since each kind has fields of its own.
    """
    if state.problem is not None:
        name = state.in_force.name
        raise ConflictError(
            f"the newest settings of {name} are not in force: {state.problem}. Replace all settings instead, with "
            f"PUT /v1/datasets/{name} or `labelwatch datasets set {name} --file FILE`"
        )
    current = state.in_force.model_dump(mode="json")
    written = _read_written_fields(state)
    fields = {name: value for name, value in written.items() if name in current and name not in ("name", "version")}
    unknown = {name: value for name, value in written.items() if name not in current}
    for name, value in changes.items():
        if value is None and name in current:
            fields.pop(name, None)
        elif isinstance(value, dict) and isinstance(current.get(name), dict):
            fields[name] = _merge_mapping(_select_merge_base(name, current[name], value), value)
        else:
            fields[name] = value
    if "model" in changes and "model_fingerprint" not in changes:
        fields.pop("model_fingerprint", None)  # of the model before
    return _check_change(state, fields, unknown, build_judge, if_match, pin_model=_chooses_model(changes))


def raise_epoch(state: SettingsState, *, build_judge: JudgeBuilder) -> SettingsChange:
    """Starts the dataset's statistics anew. Those of earlier epochs stay in the state topic, unused."""
    return merge_settings(state, {"epoch": state.in_force.epoch + 1}, build_judge=build_judge)


def write_change(
    log: SettingsLog,
    topic: str,
    change: SettingsChange,
    *,
    also: Sequence[Output] = (),
    request_id: str | None = None,
    timeout: float = 30.0,
) -> None:
    """Writes the change and what goes with it, unless the dataset was changed since its settings were read."""
    message = build_settings_message(topic, change.fields, request_id=request_id)
    try:
        log.append_if_unchanged(message, change.builds_on, also=also, timeout=timeout)
    except VersionConflict as error:
        name = change.settings.name
        raise (VersionMismatchError if change.names_version else ConflictError)(
            f"another writer changed the settings of {name} at the same time: read them again (GET "
            f"/v1/datasets/{name} or `labelwatch datasets show {name}`) and repeat the change"
        ) from error


def _read_written_fields(state: SettingsState) -> dict[str, Any]:
    """The settings in force as they were written, so that defaults stay defaults."""
    if state.latest.value is None:
        return state.in_force.model_dump(mode="json", exclude_defaults=True)
    fields: dict[str, Any] = json.loads(state.latest.value)
    return fields


def _select_merge_base(field: str, current: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    changes_kind = field == POLICY_FIELD and changes.get("kind", current["kind"]) != current["kind"]
    return {} if changes_kind else current


def _merge_mapping(current: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**current, **changes}.items() if value is not None}


def _check_change(
    state: SettingsState,
    fields: Mapping[str, Any],
    unknown_fields: Mapping[str, Any],
    build_judge: JudgeBuilder,
    if_match: Collection[str] | None,
    *,
    pin_model: bool,
) -> SettingsChange:
    """Checks the new settings and tries them with the model. The error names the field."""
    _check_encodable({**fields, **unknown_fields})
    in_force, epochs = state.in_force, _get_epochs(state)
    requested = parse_settings({"name": in_force.name, "version": in_force.version, **epochs, **fields})
    if requested.name != in_force.name:
        raise InvalidInput(
            f"it is {requested.name!r}, and the dataset is {in_force.name!r}: a dataset can't be renamed", field="name"
        )
    for name, epoch in epochs.items():
        if getattr(requested, name) < epoch:
            raise InvalidInput(f"it is {epoch} and can only grow: leave it out to keep it", field=name)
    settings = requested.model_copy(update={"version": state.next_version})
    judge = _try_settings(settings, build_judge)
    if pin_model:
        fields = {**fields, "model_fingerprint": judge.model.fingerprint}
        settings = settings.model_copy(update={"model_fingerprint": judge.model.fingerprint})
        judge = build_judge(settings)
    for versions in ({str(requested.version)}, {ANY_VERSION} if if_match is None else set(if_match)):
        if not versions & {ANY_VERSION, str(in_force.version)}:
            raise VersionMismatchError(
                f"the change is for version {' or '.join(sorted(versions))}, the version in force is "
                f"{in_force.version}: read the settings again and repeat the change"
            )
    record_fields = {
        "name": settings.name,
        **{name: epoch for name, epoch in epochs.items() if epoch},
        **fields,
        **unknown_fields,
        "version": settings.version,
    }
    if record_fields.get(POLICY_FIELD, ...) is None:
        del record_fields[POLICY_FIELD]  # as earlier releases write and read an unset policy
    names_version = if_match is not None or "version" in fields
    is_same_model = (settings.model, settings.model_fingerprint) == (in_force.model, in_force.model_fingerprint)
    chooses_model = pin_model or not is_same_model
    return SettingsChange(settings, judge, record_fields, state.latest.position, names_version, chooses_model)


def _chooses_model(fields: Mapping[str, Any]) -> bool:
    """Whether a model is chosen by its name alone."""
    return fields.get("model") is not None and "model_fingerprint" not in fields


def _get_epochs(state: SettingsState) -> dict[str, int]:
    """The epochs that the new settings must not go below, in force or not."""
    candidates = [state.in_force] if state.latest.settings is None else [state.in_force, state.latest.settings]
    return {name: max(getattr(settings, name) for settings in candidates) for name in EPOCH_FIELDS}


def _check_encodable(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        try:
            json.dumps({name: value}, allow_nan=False, ensure_ascii=False).encode()
        except ValueError as error:
            raise InvalidInput(f"it can't be written as JSON: {error}", field=name) from None


def _try_settings(settings: DatasetSettings, build_judge: JudgeBuilder) -> Judge:
    try:
        return build_judge(settings)
    except InvalidInput as error:
        raise InvalidInput(error.problem, field=error.field) from error
    except MissingModelError as error:
        raise InvalidInput(str(error), field="model") from error
    except LabelwatchError as error:
        raise InvalidInput(f"the model can't judge with these settings: {error}") from error
