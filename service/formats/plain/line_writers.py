"""doccano, Prodigy, Hugging Face, and texts with spans: JSON Lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.formats.platforms import doccano, huggingface, prodigy
from service.formats.records import ID_FIELDS
from service.formats.text.offsets import UTF16
from service.formats.text.restored_text import kept_of, meta_of, name_in, number, written_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import Telling

SPANS: Final = "spans"
# What converters note for the way back, and what has a field of its own there.
_NOTES: Final = frozenset(
    {"alignment", "field", "format", "given_offsets", "kept", "label_names", "loose", "offsets", "offsets_told_by"}
    | {"rows", "scheme", "splitter", "text", "text_field"}
)


def write_doccano(stream: TextIO, sentences: Iterable[LabelledSentence], telling: Telling) -> None:
    for sentence in sentences:
        meta = meta_of(sentence, doccano.PLATFORM)
        told = telling.retold(sentence, doccano.PLATFORM, unit=UTF16)
        line: dict[str, Any] = _identity(sentence, meta, doccano.PLATFORM)
        line[name_in(meta, "text_field", "text")] = told.text
        places = [(entity, told.counted(entity)) for entity in told.entities]
        field = name_in(meta, "field", "label")
        if field == "entities":
            line[field] = [
                {"id": place, "label": entity.label, "start_offset": start, "end_offset": end}
                for place, (entity, (start, end)) in enumerate(places, 1)
            ]
            line["relations"] = []
        else:
            line[field] = [[start, end, entity.label] for entity, (start, end) in places]
        _write(stream, line | kept_of(meta))


def write_prodigy(stream: TextIO, sentences: Iterable[LabelledSentence], telling: Telling) -> None:
    for sentence in sentences:
        meta = meta_of(sentence, prodigy.PLATFORM)
        told = telling.retold(sentence, prodigy.PLATFORM)
        spans = []
        for entity in told.entities:
            span: dict[str, Any] = {"start": entity.start, "end": entity.end}
            if told.on_words(entity):
                span |= {"token_start": entity.first, "token_end": entity.last - 1}
            spans.append(span | {"label": entity.label})
        line: dict[str, Any] = {
            "text": told.text,
            "tokens": [
                {
                    "text": word.of(told.text),
                    "start": word.start,
                    "end": word.end,
                    "id": place,
                    "ws": told.text[word.end : word.end + 1].isspace(),
                }
                for place, word in enumerate(told.words)
            ],
            name_in(meta, "field", "spans"): spans,
            "answer": prodigy.ACCEPTED,
        }
        _write(stream, line | _answered(sentence, meta) | kept_of(meta))


def _answered(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    if not meta:
        return {"meta": {name: value for name, value in (("id", sentence.id), ("source", sentence.source)) if value}}
    found: dict[str, Any] = {}
    start = f"{prodigy.PLATFORM}:"
    if sentence.id is not None and sentence.id.startswith(start):
        found["_task_hash"] = number(sentence.id.removeprefix(start).partition(":")[0])
    if sentence.annotator is not None:
        found["_annotator_id"] = sentence.annotator
    if sentence.annotated_at is not None:
        seconds = sentence.annotated_at.timestamp()
        found["_timestamp"] = int(seconds) if seconds.is_integer() else seconds
    return found


def write_huggingface(stream: TextIO, sentences: Iterable[LabelledSentence], telling: Telling) -> None:
    """Numbers where all came as numbers that mean the same and still say everything; names otherwise."""
    rows = list(sentences)
    named = {_label_names(row) for row in rows}
    names = named.pop() if len(named) == 1 else ()
    strange = sorted({label for row in rows for label in row.labels} - {*names}) if names else []
    if strange:
        telling.notes[f"labels are written as names: {', '.join(strange[:5])} had no number"] += 1
    elif names:
        telling.notes[f"labels are numbers, to be read with --label-names {','.join(names)}"] += 1
    numbers = {} if strange else {name: place for place, name in reversed(list(enumerate(names)))}
    for row in rows:
        meta = meta_of(row, huggingface.PLATFORM)
        tags = [numbers.get(label, label) for label in row.labels]
        _write(stream, _named(row, meta) | {"tokens": list(row.tokens), "ner_tags": tags} | kept_of(meta))


def _label_names(sentence: LabelledSentence) -> tuple[str, ...]:
    found = meta_of(sentence, huggingface.PLATFORM).get("label_names")
    return tuple(map(str, found)) if isinstance(found, list) else ()


def write_spans(stream: TextIO, sentences: Iterable[LabelledSentence], telling: Telling) -> None:
    for sentence in sentences:
        meta = meta_of(sentence, SPANS)
        told = telling.retold(sentence, SPANS)
        spans = []
        for entity in told.entities:
            start, end = told.counted(entity)
            spans.append({"start": start, "end": end, "label": entity.label, "text": entity.text})
        line = {
            **_named(sentence, meta),
            name_in(meta, "text_field", "text"): told.text,
            name_in(meta, "field", "spans"): spans,
            "annotator": sentence.annotator,
            "revision": sentence.revision or None,
            "annotated_at": written_at(sentence.annotated_at),
            "source": sentence.source,
            "meta": {name: value for name, value in (sentence.meta or {}).items() if name not in _NOTES} or None,
        }
        _write(stream, {name: value for name, value in line.items() if value is not None} | kept_of(meta))


def _named(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The id, unless it stands among what was kept, as it was written there."""
    return {} if any(name in kept_of(meta) for name in ID_FIELDS) else {"id": sentence.id}


def _identity(sentence: LabelledSentence, meta: Mapping[str, Any], platform: str) -> dict[str, Any]:
    """The platform's own id; a number that only counts the lines of the file is none."""
    if not meta:
        return {"id": sentence.id}
    start = f"{platform}:"
    own = sentence.id is not None and sentence.id.startswith(start)
    return {"id": number((sentence.id or "").removeprefix(start))} if own else {}


def _write(stream: TextIO, line: Mapping[str, Any]) -> None:
    stream.write(json.dumps(line, ensure_ascii=False) + "\n")
