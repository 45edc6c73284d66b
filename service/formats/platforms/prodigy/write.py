"""Writes JSON Lines that Prodigy's `db-in` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from service.formats.io.json_objects import write_json_line
from service.formats.meta import get_extra_fields, get_format_meta, get_meta_text
from service.formats.platforms.ids import to_numeric_id
from service.formats.platforms.prodigy.read import ACCEPTED, PLATFORM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import RestoredText, WriteContext


def write(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    for sentence in sentences:
        meta = get_format_meta(sentence, PLATFORM)
        restored = context.restore_text(sentence, PLATFORM)
        line: dict[str, Any] = {
            "text": restored.text,
            "tokens": _build_tokens(restored),
            get_meta_text(meta, "field", "spans"): _build_spans(restored),
            "answer": ACCEPTED,
        }
        write_json_line(stream, line | _build_answer_fields(sentence, meta) | get_extra_fields(meta))


def _build_tokens(restored: RestoredText) -> list[dict[str, Any]]:
    return [
        {
            "text": word.extract(restored.text),
            "start": word.start,
            "end": word.end,
            "id": index,
            "ws": restored.text[word.end : word.end + 1].isspace(),
        }
        for index, word in enumerate(restored.words)
    ]


def _build_spans(restored: RestoredText) -> list[dict[str, Any]]:
    spans = []
    for entity in restored.entities:
        span: dict[str, Any] = {"start": entity.start, "end": entity.end}
        if restored.is_word_aligned(entity):
            span |= {"token_start": entity.first_word, "token_end": entity.end_word - 1}
        spans.append(span | {"label": entity.label})
    return spans


def _build_answer_fields(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    if not meta:
        about = {"id": sentence.id, "document": sentence.document, "source": sentence.source}
        return {"meta": {name: value for name, value in about.items() if value}}
    fields: dict[str, Any] = {}
    prefix = f"{PLATFORM}:"
    if sentence.id is not None and sentence.id.startswith(prefix):
        fields["_task_hash"] = to_numeric_id(sentence.id.removeprefix(prefix).partition(":")[0])
    if sentence.annotator is not None:
        fields["_annotator_id"] = sentence.annotator
    if sentence.annotated_at is not None:
        seconds = sentence.annotated_at.timestamp()
        fields["_timestamp"] = int(seconds) if seconds.is_integer() else seconds
    return fields
