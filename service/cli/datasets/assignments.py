"""KEY=VALUE arguments of `labelwatch datasets set`, as changes that `merge_settings` and PATCH take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from service.contracts import DatasetSettings
from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

LABEL_MAP_FIELD = "label_map"
POLICY_FIELD = "flag_policy"
NESTED_FIELDS = (LABEL_MAP_FIELD, POLICY_FIELD)
EPOCH_HINT = "use `labelwatch thresholds reset`"
READ_ONLY_FIELDS = {
    "name": "a dataset can't be renamed",
    "version": "every change raises it",
    "epoch": EPOCH_HINT,
}


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """The changes as a JSON merge patch: `a.b=1` becomes {"a": {"b": 1}}, an empty value or `null` becomes None."""
    changes: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        field, dot, key = path.partition(".")
        if not field or not equals or (dot and not key):
            raise typer.BadParameter(f"{assignment!r} is not KEY=VALUE, such as control_share=0.01")
        if field in READ_ONLY_FIELDS:
            raise InvalidInput(READ_ONLY_FIELDS[field], field=field)
        if not dot:
            changes[field] = _parse_value(field, text)
            continue
        if field in DatasetSettings.model_fields and field not in NESTED_FIELDS:
            raise InvalidInput(f"it has no fields of its own: write {field}=…", field=path)
        entries = changes.setdefault(field, {})
        if not isinstance(entries, dict):
            raise InvalidInput("it is set as a whole and by its fields: do one of both", field=field)
        entries[key] = _parse_nested_value(field, text)
    return changes


def _parse_value(field: str, text: str) -> object:
    """`flag_policy=confident` is short for `flag_policy.kind=confident`."""
    value = _parse_json_or_text(text)
    return {"kind": value} if field == POLICY_FIELD and isinstance(value, str) else value


def _parse_nested_value(field: str, text: str) -> object:
    """A label is text, also one such as 3 or true."""
    if field == LABEL_MAP_FIELD and text not in ("", "null"):
        return text
    return _parse_json_or_text(text)


def _parse_json_or_text(text: str) -> object:
    """JSON, or text that needs no quotes."""
    if not text:
        return None
    try:
        return json.loads(text, parse_constant=lambda _: text)
    except (ValueError, RecursionError):
        return text
