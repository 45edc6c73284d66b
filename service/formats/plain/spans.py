"""Texts with spans: `{"text": …, "spans": [{"start", "end", "label"}]}`, or spans as [start, end, label].

A span may carry its own `text`, which is then compared. Other fields of a sentence (`id`, `annotator`, …) are read as
they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput
from service.formats.platforms.common import Converted, kept, labelled, listing, name_of, reader
from service.formats.records import CARRIED, ID_FIELDS
from service.formats.text.alignment import read_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.records import Options

SPAN_FIELDS = ("spans", "entities", "ents", "annotations")
_NAMES = {"start": ("start", "start_offset"), "end": ("end", "end_offset"), "label": ("label", "labels", "type")}


def from_line(line: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    fields = {name: line[name] for name in CARRIED if line.get(name) is not None}
    identity = next((name_of(line[name]) for name in ID_FIELDS if name_of(line.get(name)) is not None), None)
    if identity is not None:
        fields["id"] = identity
    if fields.get("deleted") is not True:
        names = (options.label,) if options.label is not None else SPAN_FIELDS
        name = next((name for name in names if line.get(name) is not None), None)
        if name is None:
            raise InvalidInput(f"none of {', '.join(names)} is there", field="spans")
        given = listing(line[name], name)
        spans = [read_span(value, f"{name}.{place}", names=_NAMES) for place, value in enumerate(given)]
        text_field = options.word or "text"
        made = labelled(line.get(text_field), spans, options, field=text_field)
        carried = fields.get("meta")
        if carried is not None and not isinstance(carried, dict):
            raise InvalidInput("it must be an object", field="meta")
        others = {*CARRIED, name, text_field}
        about = {"format": "spans", **kept({part: value for part, value in line.items() if part not in others})}
        about |= {
            part: told
            for part, told, usual in (("field", name, "spans"), ("text_field", text_field, "text"))
            if told != usual
        }
        fields |= {**made, "meta": {**(carried or {}), **made["meta"], **about}}
    yield fields


read = reader(from_line)
