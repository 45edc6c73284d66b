"""doccano, Prodigy, Hugging Face, and texts with spans: JSON Lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.formats.platforms import doccano, huggingface, prodigy
from service.formats.records import ID_FIELDS
from service.formats.text.offsets import UTF16
from service.formats.text.restored_text import (
    format_timestamp,
    get_extra_fields,
    get_format_meta,
    get_meta_text,
    to_numeric_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import WriteContext

SPANS_FORMAT: Final = "spans"
# What converters note for the way back, and what has a field of its own there.
_CONVERTER_META_KEYS: Final = frozenset(
    {"alignment", "field", "format", "given_offsets", "kept", "label_names", "loose", "offsets", "offsets_told_by"}
    | {"rows", "scheme", "splitter", "text", "text_field"}
)


def write_doccano(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    for sentence in sentences:
        meta = get_format_meta(sentence, doccano.PLATFORM)
        told = context.restore_text(sentence, doccano.PLATFORM, unit=UTF16)
        line: dict[str, Any] = _build_platform_id(sentence, meta, doccano.PLATFORM)
        line[get_meta_text(meta, "text_field", "text")] = told.text
        places = [(entity, told.to_format_offsets(entity)) for entity in told.entities]
        field = get_meta_text(meta, "field", "label")
        if field == "entities":
            line[field] = [
                {"id": place, "label": entity.label, "start_offset": start, "end_offset": end}
                for place, (entity, (start, end)) in enumerate(places, 1)
            ]
            line["relations"] = []
        else:
            line[field] = [[start, end, entity.label] for entity, (start, end) in places]
        _write_line(stream, line | get_extra_fields(meta))


def write_prodigy(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    for sentence in sentences:
        meta = get_format_meta(sentence, prodigy.PLATFORM)
        told = context.restore_text(sentence, prodigy.PLATFORM)
        spans = []
        for entity in told.entities:
            span: dict[str, Any] = {"start": entity.start, "end": entity.end}
            if told.is_word_aligned(entity):
                span |= {"token_start": entity.first_word, "token_end": entity.end_word - 1}
            spans.append(span | {"label": entity.label})
        line: dict[str, Any] = {
            "text": told.text,
            "tokens": [
                {
                    "text": word.extract(told.text),
                    "start": word.start,
                    "end": word.end,
                    "id": place,
                    "ws": told.text[word.end : word.end + 1].isspace(),
                }
                for place, word in enumerate(told.words)
            ],
            get_meta_text(meta, "field", "spans"): spans,
            "answer": prodigy.ACCEPTED,
        }
        _write_line(stream, line | _build_answer_fields(sentence, meta) | get_extra_fields(meta))


def _build_answer_fields(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    if not meta:
        return {"meta": {name: value for name, value in (("id", sentence.id), ("source", sentence.source)) if value}}
    found: dict[str, Any] = {}
    start = f"{prodigy.PLATFORM}:"
    if sentence.id is not None and sentence.id.startswith(start):
        found["_task_hash"] = to_numeric_id(sentence.id.removeprefix(start).partition(":")[0])
    if sentence.annotator is not None:
        found["_annotator_id"] = sentence.annotator
    if sentence.annotated_at is not None:
        seconds = sentence.annotated_at.timestamp()
        found["_timestamp"] = int(seconds) if seconds.is_integer() else seconds
    return found


def write_huggingface(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    """Numbers where all came as numbers that mean the same and still say everything; names otherwise."""
    rows = list(sentences)
    named = {_get_label_names(row) for row in rows}
    names = named.pop() if len(named) == 1 else ()
    strange = sorted({label for row in rows for label in row.labels} - {*names}) if names else []
    if strange:
        context.notes[f"labels are written as names: {', '.join(strange[:5])} had no number"] += 1
    elif names:
        context.notes[f"labels are numbers, to be read with --label-names {','.join(names)}"] += 1
    numbers = {} if strange else {name: place for place, name in reversed(list(enumerate(names)))}
    for row in rows:
        meta = get_format_meta(row, huggingface.PLATFORM)
        tags = [numbers.get(label, label) for label in row.labels]
        _write_line(
            stream, _build_id_field(row, meta) | {"tokens": list(row.tokens), "ner_tags": tags} | get_extra_fields(meta)
        )


def _get_label_names(sentence: LabelledSentence) -> tuple[str, ...]:
    found = get_format_meta(sentence, huggingface.PLATFORM).get("label_names")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def write_spans(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    for sentence in sentences:
        meta = get_format_meta(sentence, SPANS_FORMAT)
        told = context.restore_text(sentence, SPANS_FORMAT)
        spans = []
        for entity in told.entities:
            start, end = told.to_format_offsets(entity)
            spans.append({"start": start, "end": end, "label": entity.label, "text": entity.text})
        line = {
            **_build_id_field(sentence, meta),
            get_meta_text(meta, "text_field", "text"): told.text,
            get_meta_text(meta, "field", "spans"): spans,
            "annotator": sentence.annotator,
            "revision": sentence.revision or None,
            "annotated_at": format_timestamp(sentence.annotated_at),
            "source": sentence.source,
            "meta": {name: value for name, value in (sentence.meta or {}).items() if name not in _CONVERTER_META_KEYS}
            or None,
        }
        _write_line(stream, {name: value for name, value in line.items() if value is not None} | get_extra_fields(meta))


def _build_id_field(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The id, unless it stands among what was kept, as it was written there."""
    return {} if any(name in get_extra_fields(meta) for name in ID_FIELDS) else {"id": sentence.id}


def _build_platform_id(sentence: LabelledSentence, meta: Mapping[str, Any], platform: str) -> dict[str, Any]:
    """The platform's own id; a number that only counts the lines of the file is none."""
    if not meta:
        return {"id": sentence.id}
    start = f"{platform}:"
    own = sentence.id is not None and sentence.id.startswith(start)
    return {"id": to_numeric_id((sentence.id or "").removeprefix(start))} if own else {}


def _write_line(stream: TextIO, line: Mapping[str, Any]) -> None:
    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
