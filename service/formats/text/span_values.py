"""Spans as JSON writes them: `[start, end, label]` or an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput
from service.formats.io.json_values import require_array, require_integer, require_label
from service.formats.text.offsets import TextSpan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def read_span(value: object, field: str, *, names: Mapping[str, Sequence[str]] | None = None) -> TextSpan:
    """A span from `[start, end, label]` or an object. `names`: the platform's names of the parts."""
    if isinstance(value, list):
        if len(value) != 3:
            raise InvalidInput("write it as [start, end, label]", field=field)
        start, end, label = value
        text = None
    elif isinstance(value, dict):
        names = names or {}
        start, end, label = (_get_first_present(value, names.get(part, (part,))) for part in ("start", "end", "label"))
        text = value.get("text")
    else:
        raise InvalidInput("write it as [start, end, label] or as an object with these", field=field)
    return TextSpan(
        require_integer(start, f"{field}.start"),
        require_integer(end, f"{field}.end"),
        require_label(label, f"{field}.label"),
        field,
        text if isinstance(text, str) else None,
    )


def read_first_spans(
    record: Mapping[str, Any], fields: Sequence[str], *, names: Mapping[str, Sequence[str]], missing_field: str
) -> tuple[str, list[TextSpan]]:
    """The name of the first field that is present, and its spans. An error about missing spans names `missing_field`."""
    field = next((name for name in fields if record.get(name) is not None), None)
    if field is None:
        raise InvalidInput(f"none of {', '.join(fields)} is there", field=missing_field)
    values = require_array(record[field], field)
    return field, [read_span(value, f"{field}.{index}", names=names) for index, value in enumerate(values)]


def _get_first_present(value: Mapping[str, Any], names: Sequence[str]) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)
