"""doccano: JSON Lines in, with `label` (or `labels`) as [start, end, label] or `entities` as objects, and CoNLL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.conversion import ConvertedFields, build_labelled_fields, build_reader
from service.formats.io.json_objects import is_json
from service.formats.io.json_values import require_array, to_name
from service.formats.meta import pack_extra_fields
from service.formats.plain.conll.read import read as read_conll
from service.formats.text.offsets import UTF16
from service.formats.text.span_values import read_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord, ReadOptions

PLATFORM: Final = "doccano"
SPAN_FIELDS: Final = ("label", "labels", "entities")
_SPAN_PART_NAMES: Final = {"start": ("start_offset", "start"), "end": ("end_offset", "end"), "label": ("label",)}


def from_line(line: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    fields = (options.label,) if options.label is not None else SPAN_FIELDS
    name = next((name for name in fields if line.get(name) is not None), None)
    if name is None:
        raise InvalidInput(f"none of {', '.join(fields)} is there", field="label")
    spans = [
        read_span(value, f"{name}.{place}", names=_SPAN_PART_NAMES)
        for place, value in enumerate(require_array(line[name], name))
    ]
    text_field = options.word or "text"
    # Its editor counts as JavaScript does (unless a project counts grapheme clusters); what was imported may not.
    made = build_labelled_fields(line.get(text_field), spans, options, field=text_field, unit=UTF16)
    made["meta"]["format"] = PLATFORM
    made["meta"] |= {
        part: told
        for part, told, usual in (("field", name, "label"), ("text_field", text_field, "text"))
        if told != usual
    }
    # Relations are between spans by their ids, and these may be others when they come back.
    made["meta"] |= pack_extra_fields(
        {part: value for part, value in line.items() if part not in {"id", "relations", name, text_field}}
    )
    identity = to_name(line.get("id"))
    if identity is not None:
        made["id"] = f"{PLATFORM}:{identity}"
    annotator = to_name(line.get("annotator") or line.get("username"))
    yield made if annotator is None else {**made, "annotator": annotator}


_read_lines = build_reader(from_line)


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    """Either of its two exports for sequence labelling."""
    return _read_lines(source, options) if is_json(source.head) else read_conll(source, options)
