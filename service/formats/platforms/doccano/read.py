"""Reads exports of doccano: JSON Lines with `label` (or `labels`) as [start, end, label] or `entities`, and CoNLL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.formats.conversion import ConvertedFields, build_labelled_fields, build_reader
from service.formats.io.json_objects import is_json
from service.formats.io.json_values import to_name
from service.formats.meta import pack_extra_fields
from service.formats.plain.conll.read import read as read_conll
from service.formats.records import find_document
from service.formats.text.offsets import UTF16
from service.formats.text.span_values import read_first_spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord, ReadOptions

PLATFORM: Final = "doccano"
SPAN_FIELDS: Final = ("label", "labels", "entities")
_SPAN_PART_NAMES: Final = {"start": ("start_offset", "start"), "end": ("end_offset", "end"), "label": ("label",)}


def from_line(line: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    span_fields = (options.label,) if options.label is not None else SPAN_FIELDS
    span_field, spans = read_first_spans(line, span_fields, names=_SPAN_PART_NAMES, missing_field="label")
    text_field = options.word or "text"
    # doccano's editor counts UTF-16 units (unless a project counts grapheme clusters); imported spans may not.
    fields = build_labelled_fields(line.get(text_field), spans, options, field=text_field, unit=UTF16)
    meta = fields["meta"]
    meta["format"] = PLATFORM
    if span_field != "label":
        meta["field"] = span_field
    if text_field != "text":
        meta["text_field"] = text_field
    # Relations refer to spans by id, and exported spans get new ids.
    known = {"id", "relations", span_field, text_field}
    meta |= pack_extra_fields({name: value for name, value in line.items() if name not in known})
    identity = to_name(line.get("id"))
    if identity is not None:
        fields["id"] = f"{PLATFORM}:{identity}"
    fields["document"] = find_document(line, text_field=text_field) or fields.get("id")
    annotator = to_name(line.get("annotator") or line.get("username"))
    yield fields if annotator is None else {**fields, "annotator": annotator}


_read_lines = build_reader(from_line)


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    """Reads either of doccano's two exports for sequence labelling."""
    return _read_lines(source, options) if is_json(source.head) else read_conll(source, options)
