"""Writes records with their responses, as Argilla's `records.to_json` writes and `records.from_json` reads them.

Responses belong to users of Argilla. Sentences from elsewhere have no such user: they become suggestions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.formats.io.json_values import format_timestamp
from service.formats.meta import get_extra_fields, get_format_meta, get_meta_text
from service.formats.platforms.argilla.responses import EXTRA_RECORD_FIELDS, PLATFORM
from service.formats.text.offsets import UTF16

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import RestoredText, WriteContext

DEFAULT_QUESTION: Final = "entities"
DEFAULT_TEXT_FIELD: Final = "text"
AGENT: Final = "labelwatch"


def write(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    records: dict[tuple[object, ...], dict[str, Any]] = {}
    for index, sentence in enumerate(sentences):
        meta = get_format_meta(sentence, PLATFORM)
        restored = context.restore_text(sentence, PLATFORM, unit=UTF16)
        is_list = meta.get("responses") == "list"
        key = (str(meta["record"]), restored.text, is_list) if meta.get("record") else (index,)
        record = records.get(key)
        if record is None:
            record = records[key] = _build_record(sentence, meta, restored)
        if not meta:
            record["suggestions"] = {DEFAULT_QUESTION: {"value": _build_spans(restored), "agent": AGENT}}
        elif is_list:
            record["responses"].append(_build_response(sentence, meta, restored))
        else:
            _add_answers(record["responses"], sentence, meta, restored)
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records.values())
    stream.write(f"[\n{lines}\n]\n" if lines else "[]\n")


def _build_record(sentence: LabelledSentence, meta: Mapping[str, Any], restored: RestoredText) -> dict[str, Any]:
    extra = get_extra_fields(meta)
    fields = extra.get("fields")
    identity = meta.get("record") if meta else sentence.id
    return {
        **({"id": identity} if identity is not None else {}),
        "fields": {
            get_meta_text(meta, "field", DEFAULT_TEXT_FIELD): restored.text,
            **(fields if isinstance(fields, dict) else {}),
        },
        **{name: extra[name] for name in EXTRA_RECORD_FIELDS if name in extra},
        "responses": [] if meta.get("responses") == "list" else {},
    }


def _build_spans(restored: RestoredText) -> list[dict[str, Any]]:
    spans = ((entity.label, *restored.to_format_offsets(entity)) for entity in restored.entities)
    return [{"label": label, "start": start, "end": end} for label, start, end in spans]


def _get_other_answers(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The same user's answers to other questions."""
    values = get_extra_fields(meta).get("values")
    return values if isinstance(values, dict) else {}


def _build_user_fields(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    user = meta.get("user") or sentence.annotator
    return {"user_id": user, "status": "submitted"} if user else {"status": "submitted"}


def _add_answers(
    answers: dict[str, list[dict[str, Any]]],
    sentence: LabelledSentence,
    meta: Mapping[str, Any],
    restored: RestoredText,
) -> None:
    user = _build_user_fields(sentence, meta)
    values = {get_meta_text(meta, "question", DEFAULT_QUESTION): _build_spans(restored)} | _get_other_answers(meta)
    for question, value in values.items():
        given = answers.setdefault(question, [])
        if {"value": value, **user} not in given:  # sentences of two span questions carry the same other answers
            given.append({"value": value, **user})


def _build_response(sentence: LabelledSentence, meta: Mapping[str, Any], restored: RestoredText) -> dict[str, Any]:
    """A response as the REST API writes it."""
    values = {get_meta_text(meta, "question", DEFAULT_QUESTION): _build_spans(restored)} | _get_other_answers(meta)
    updated_at = format_timestamp(sentence.annotated_at)
    return {
        "id": (sentence.id or "").removeprefix(f"{PLATFORM}:"),
        "values": {question: {"value": value} for question, value in values.items()},
        **_build_user_fields(sentence, meta),
        **({"updated_at": updated_at} if updated_at is not None else {}),
    }
