"""Texts with spans: `{"text": …, "spans": [{"start", "end", "label"}]}`, or spans as [start, end, label].

A span may carry its own `text`, which must match. Other fields of a sentence (`id`, `annotator`, …) are copied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TextIO

from service.errors import InvalidInput
from service.formats.conversion import ConvertedFields, build_labelled_fields, build_reader
from service.formats.format import Format, build_signatures
from service.formats.io.json_objects import write_json_line
from service.formats.io.json_values import format_timestamp, to_name
from service.formats.meta import (
    CONVERTER_META_KEYS,
    build_document_field,
    build_id_field,
    get_extra_fields,
    get_format_meta,
    get_meta_text,
    pack_extra_fields,
)
from service.formats.records import ID_FIELDS, PASSTHROUGH_FIELDS, find_batch, find_document
from service.formats.text.span_values import read_first_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from service.contracts import LabelledSentence
    from service.formats.records import ReadOptions
    from service.formats.text.restored_text import WriteContext

NAME: Final = "spans"
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
    document = find_document(line, text_field=options.word)
    if document is not None:
        fields["document"] = document
    batch = find_batch(line)
    if batch is not None:
        fields["batch"] = batch
    if fields.get("deleted") is not True:
        fields |= _convert_text(line, fields.get("meta"), options)
    yield fields


def _convert_text(line: Mapping[str, Any], given_meta: object, options: ReadOptions) -> dict[str, Any]:
    span_fields = (options.label,) if options.label is not None else SPAN_FIELDS
    span_field, spans = read_first_spans(line, span_fields, names=_SPAN_PART_NAMES, missing_field="spans")
    text_field = options.word or "text"
    labelled = build_labelled_fields(line.get(text_field), spans, options, field=text_field)
    if given_meta is not None and not isinstance(given_meta, dict):
        raise InvalidInput("it must be an object", field="meta")
    known = {*PASSTHROUGH_FIELDS, span_field, text_field}
    meta = {"format": NAME, **pack_extra_fields({name: value for name, value in line.items() if name not in known})}
    if span_field != "spans":
        meta["field"] = span_field
    if text_field != "text":
        meta["text_field"] = text_field
    return {**labelled, "meta": {**(given_meta or {}), **labelled["meta"], **meta}}


read = build_reader(from_line)


def write(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    for sentence in sentences:
        meta = get_format_meta(sentence, NAME)
        restored = context.restore_text(sentence, NAME)
        spans = []
        for entity in restored.entities:
            start, end = restored.to_format_offsets(entity)
            spans.append({"start": start, "end": end, "label": entity.label, "text": entity.text})
        own_meta = {key: value for key, value in (sentence.meta or {}).items() if key not in CONVERTER_META_KEYS}
        line = {
            **build_id_field(sentence, meta),
            **build_document_field(sentence, meta),
            get_meta_text(meta, "text_field", "text"): restored.text,
            get_meta_text(meta, "field", "spans"): spans,
            "annotator": sentence.annotator,
            "revision": sentence.revision or None,
            "annotated_at": format_timestamp(sentence.annotated_at),
            "source": sentence.source,
            "meta": own_meta or None,
        }
        present = {name: value for name, value in line.items() if value is not None}
        write_json_line(stream, present | get_extra_fields(meta))


FORMAT: Final = Format(
    name=NAME,
    read=read,
    write=write,
    convert=from_line,
    signatures=build_signatures({"text", "spans"}),
    record_keys=(("text",),),
    has_dataset=True,
)
