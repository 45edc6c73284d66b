"""Texts with spans: `{"text": …, "spans": [{"start", "end", "label"}]}`, or spans as [start, end, label].

A span may carry its own `text`, which is then compared. Other fields of a sentence (`id`, `annotator`, …) are read as
they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput
from service.formats.platforms.common import (
    ConvertedFields,
    build_labelled_fields,
    build_reader,
    pack_extra_fields,
    require_array,
    to_name,
)
from service.formats.records import ID_FIELDS, PASSTHROUGH_FIELDS
from service.formats.text.alignment import read_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.records import ReadOptions

SPAN_FIELDS = ("spans", "entities", "ents", "annotations")
_SPAN_PART_NAMES = {
    "start": ("start", "start_offset"),
    "end": ("end", "end_offset"),
    "label": ("label", "labels", "type"),
}


def from_line(line: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    fields = {name: line[name] for name in PASSTHROUGH_FIELDS if line.get(name) is not None}
    identity = next((to_name(line[name]) for name in ID_FIELDS if to_name(line.get(name)) is not None), None)
    if identity is not None:
        fields["id"] = identity
    if fields.get("deleted") is not True:
        names = (options.label,) if options.label is not None else SPAN_FIELDS
        name = next((name for name in names if line.get(name) is not None), None)
        if name is None:
            raise InvalidInput(f"none of {', '.join(names)} is there", field="spans")
        given = require_array(line[name], name)
        spans = [read_span(value, f"{name}.{place}", names=_SPAN_PART_NAMES) for place, value in enumerate(given)]
        text_field = options.word or "text"
        made = build_labelled_fields(line.get(text_field), spans, options, field=text_field)
        carried = fields.get("meta")
        if carried is not None and not isinstance(carried, dict):
            raise InvalidInput("it must be an object", field="meta")
        others = {*PASSTHROUGH_FIELDS, name, text_field}
        about = {
            "format": "spans",
            **pack_extra_fields({part: value for part, value in line.items() if part not in others}),
        }
        about |= {
            part: told
            for part, told, usual in (("field", name, "spans"), ("text_field", text_field, "text"))
            if told != usual
        }
        fields |= {**made, "meta": {**(carried or {}), **made["meta"], **about}}
    yield fields


read = build_reader(from_line)
