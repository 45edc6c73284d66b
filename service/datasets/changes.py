"""Settings of a dataset as a request changes them: merged with those before, and tried with the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from service.api.http.problems import ConflictError, PreconditionFailedError
from service.contracts import DatasetSettings
from service.datasets.registry import parse_settings
from service.errors import InvalidInput, LabelwatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.datasets.registry import LatestSettings
    from service.stream.state.view import StateView

MONOTONIC_FIELDS = ("epoch", "ranker_epoch")


def merge_settings(
    before: DatasetSettings, latest: LatestSettings, changes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings with the changes; beside them the fields that only a newer labelwatch knows, which stay."""
    if latest.version > before.version:
        raise ConflictError(
            f"version {latest.version} is newer and not in force here, as it does not fit the model: replace it by PUT"
        )
    fields = before.model_dump(mode="json", exclude={"name", "version", *MONOTONIC_FIELDS})
    policy = changes.get("flag_policy")
    if isinstance(policy, dict) and policy.get("kind", before.flag_policy.kind) != before.flag_policy.kind:
        fields["flag_policy"] = {}  # each kind has fields of its own
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(fields.get(key), dict):
            fields[key] = {inner: one for inner, one in {**fields[key], **value}.items() if one is not None}
        elif value is None:
            fields.pop(key, None)
            if key not in DatasetSettings.model_fields:
                fields[key] = value  # so that it is told
        else:
            fields[key] = value
    written: dict[str, Any] = from_json(latest.value) if latest.value is not None else {}
    return fields, {key: value for key, value in written.items() if key not in DatasetSettings.model_fields}


def validate_settings(
    state_view: StateView, before: DatasetSettings, body: dict[str, Any], if_match: str | None, *, version: int
) -> DatasetSettings:
    """The settings to write, tried with the model; the error names the field."""
    kept = {name: getattr(before, name) for name in ("name", "version", *MONOTONIC_FIELDS)}
    asked = parse_settings({**kept, **body}, strict=True)
    if asked.name != before.name:
        raise InvalidInput(f"it is {before.name!r} in the path: a dataset can't be renamed", field="name")
    for name in MONOTONIC_FIELDS:
        if getattr(asked, name) < kept[name]:
            raise InvalidInput(f"it is {kept[name]} and can only grow", field=name)
    settings = asked.model_copy(update={"version": version})
    try:
        state_view.build_judge(settings)
    except InvalidInput as error:
        raise InvalidInput(error.problem, field="label_map" if error.field == "mapping" else error.field) from error
    except LabelwatchError as error:
        raise InvalidInput(f"the model can't judge with these settings: {error}") from error
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in (if_match or "*").split(",")]
    if asked.version != before.version or not {"*", str(before.version)} & set(tags):
        raise PreconditionFailedError(
            f"the version in force is {before.version}: read it again and repeat the change on it"
        )
    return settings
