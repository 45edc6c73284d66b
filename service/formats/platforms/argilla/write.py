"""Argilla 2: records with their responses, as `records.to_json` writes them and `records.from_json` takes them.

Responses belong to users of Argilla. What came from elsewhere has none: it is written as suggestions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.formats.platforms.argilla.read import PLATFORM
from service.formats.text.offsets import UTF16
from service.formats.text.restored_text import kept_of, meta_of, name_in, written_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import Retold, Telling

QUESTION: Final = "entities"
TEXT: Final = "text"
AGENT: Final = "labelwatch"
_BESIDE: Final = ("_server_id", "external_id", "metadata", "status", "suggestions")


def write(stream: TextIO, sentences: Iterable[LabelledSentence], telling: Telling) -> None:
    records: dict[tuple[object, ...], dict[str, Any]] = {}
    for place, sentence in enumerate(sentences):
        meta = meta_of(sentence, PLATFORM)
        told = telling.retold(sentence, PLATFORM, unit=UTF16)
        listed = meta.get("responses") == "list"
        key = (str(meta["record"]), told.text, listed) if meta.get("record") else (place,)
        record = records.get(key)
        if record is None:
            record = records[key] = _record(sentence, meta, told)
        if not meta:
            record["suggestions"] = {QUESTION: {"value": _values(told), "agent": AGENT}}
        elif listed:
            record["responses"].append(_response(sentence, meta, told))
        else:
            _add_answers(record["responses"], sentence, meta, told)
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records.values())
    stream.write(f"[\n{lines}\n]\n" if lines else "[]\n")


def _record(sentence: LabelledSentence, meta: Mapping[str, Any], told: Retold) -> dict[str, Any]:
    kept = kept_of(meta)
    fields = kept.get("fields")
    identity = meta.get("record") if meta else sentence.id
    return {
        **({"id": identity} if identity is not None else {}),
        "fields": {name_in(meta, "field", TEXT): told.text, **(fields if isinstance(fields, dict) else {})},
        **{name: kept[name] for name in _BESIDE if name in kept},
        "responses": [] if meta.get("responses") == "list" else {},
    }


def _values(told: Retold) -> list[dict[str, Any]]:
    places = ((entity, told.counted(entity)) for entity in told.entities)
    return [{"label": entity.label, "start": start, "end": end} for entity, (start, end) in places]


def _others(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What the same user has answered to other questions."""
    found = kept_of(meta).get("values")
    return found if isinstance(found, dict) else {}


def _user(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    user = meta.get("user") or sentence.annotator
    return {"user_id": user, "status": "submitted"} if user else {"status": "submitted"}


def _add_answers(
    answers: dict[str, list[dict[str, Any]]], sentence: LabelledSentence, meta: Mapping[str, Any], told: Retold
) -> None:
    user = _user(sentence, meta)
    values = {name_in(meta, "question", QUESTION): _values(told)} | _others(meta)
    for question, value in values.items():
        there = answers.setdefault(question, [])
        if {"value": value, **user} not in there:  # of two span questions each brings the answers beside it
            there.append({"value": value, **user})


def _response(sentence: LabelledSentence, meta: Mapping[str, Any], told: Retold) -> dict[str, Any]:
    """As the REST API has it."""
    values = {name_in(meta, "question", QUESTION): _values(told)} | _others(meta)
    at = written_at(sentence.annotated_at)
    return {
        "id": (sentence.id or "").removeprefix(f"{PLATFORM}:"),
        "values": {question: {"value": value} for question, value in values.items()},
        **_user(sentence, meta),
        **({"updated_at": at} if at is not None else {}),
    }
