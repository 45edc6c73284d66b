"""What platforms export, in words of our own, and the way in and out again."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

from service.formats import ReadOptions, read_sentences, write_sentences
from service.formats.text.word_splitter import split_words

if TYPE_CHECKING:
    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import WriteContext

# The ship is one character, and two UTF-16 units.
TEXT = "🚢 Mara Quill sailed from Tallinn to Riga."
GIVEN = ("O", "B-PER", "I-PER", "O", "O", "B-LOC", "O", "B-ORG", "O")
CORRECTED = ("O", "B-PER", "I-PER", "O", "O", "O", "O", "B-LOC", "O")
ENTITIES = (("Mara Quill", "PER"), ("Tallinn", "LOC"), ("Riga", "ORG"))
WORDS = "🚢 Mara Quill sailed from Tallinn to Riga ."
NAMES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG")


def find_offsets(part: str, *, utf16: bool = False, text: str = TEXT) -> tuple[int, int]:
    def size(some: str) -> int:
        return len(some.encode("utf-16-le")) // 2 if utf16 else len(some)

    start = size(text[: text.index(part)])
    return start, start + size(part)


def make_region(part: str, label: str, **about: Any) -> dict[str, Any]:
    start, end = find_offsets(part, **about)
    value = {"start": start, "end": end, "text": part, "labels": [label]}
    return {"from_name": "ner", "to_name": "body", "type": "labels", "origin": "manual", "value": value}


def make_task(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    annotation = {
        "id": 41,
        "result": list(results),
        "was_cancelled": False,
        "ground_truth": True,
        "completed_by": 5,
        "updated_at": "2026-03-01T10:00:00.000002Z",
    }
    data = {"text": TEXT, "doc_id": "d-1", "page": 3}
    return {"id": 7, "project": 3, "data": data, "meta": {"k": "v"}, "annotations": [annotation], **more}


MOOD = {"from_name": "mood", "to_name": "body", "type": "choices", "value": {"choices": ["calm"]}}


def make_argilla_record(values: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    user = {"user_id": "u-1", "status": "submitted"}
    answers = {"entities": [{"value": values, **user}], "mood": [{"value": "calm", **user}]}
    fields = {"text": TEXT, "title": "At sea"}
    return {"id": "r-1", "fields": fields, "metadata": {"page": 3}, "_server_id": "s-1", "responses": answers, **more}


def make_prodigy_tokens() -> list[dict[str, Any]]:
    return [
        {"text": w.extract(TEXT), "start": w.start, "end": w.end, "id": n, "ws": TEXT[w.end : w.end + 1] == " "}
        for n, w in enumerate(split_words(TEXT))
    ]


def make_prodigy_span(part: str, label: str) -> dict[str, Any]:
    start, end = find_offsets(part)
    inside = [n for n, word in enumerate(split_words(TEXT)) if start <= word.start < end]
    return {"start": start, "end": end, "token_start": inside[0], "token_end": inside[-1], "label": label}


def make_triplets(*, utf16: bool) -> list[list[object]]:
    return [[*find_offsets(part, utf16=utf16), label] for part, label in ENTITIES]


def make_named_spans(parts: tuple[str, str, str], *, utf16: bool) -> list[dict[str, object]]:
    return [dict(zip(parts, one, strict=True)) for one in make_triplets(utf16=utf16)]


START_END = ("start", "end", "label")
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "label-studio": ("label-studio", make_task(*(make_region(*one) for one in ENTITIES), MOOD)),
    "label-studio-utf16": ("label-studio", make_task(*(make_region(*one, utf16=True) for one in ENTITIES))),
    "argilla": ("argilla", make_argilla_record(make_named_spans(START_END, utf16=True))),
    "argilla-characters": ("argilla", make_argilla_record(make_named_spans(START_END, utf16=False))),
    "argilla-rest": (
        "argilla",
        make_argilla_record(
            [],
            responses=[
                {
                    "id": "resp-1",
                    "values": {"entities": {"value": make_named_spans(START_END, utf16=True)}, "mood": {"value": "calm"}},
                    "user_id": "u-1",
                    "status": "submitted",
                    "updated_at": "2026-03-01T10:00:00.000002Z",
                }
            ],
        ),
    ),
    "doccano": ("doccano", {"id": 9, "text": TEXT, "label": make_triplets(utf16=True), "Comments": ["?"], "username": "kim"}),
    "doccano-labels": ("doccano", {"id": "x9", "text": TEXT, "labels": make_triplets(utf16=False), "page": 3}),
    "doccano-entities": (
        "doccano",
        {
            "id": 9,
            "text": TEXT,
            "entities": [
                {"id": n, **one} for n, one in enumerate(make_named_spans(("start_offset", "end_offset", "label"), utf16=True), 1)
            ],
            "relations": [],
        },
    ),
    "prodigy": (
        "prodigy",
        {
            "text": TEXT,
            "meta": {"page": 3},
            "_input_hash": -12,
            "_task_hash": -4711,
            "_session_id": None,
            "tokens": make_prodigy_tokens(),
            "spans": [make_prodigy_span(*one) for one in ENTITIES],
            "answer": "accept",
            "_annotator_id": "trips-kim",
            "_timestamp": 1767225600,
        },
    ),
    "huggingface": (
        "huggingface",
        {"id": "12", "tokens": WORDS.split(), "ner_tags": [NAMES.index(one) for one in GIVEN], "pos_tags": [1] * 9},
    ),
    "huggingface-names": ("huggingface", {"sentence_id": 12, "meta": {"page": 3}, "tokens": WORDS.split(), "ner_tags": list(GIVEN)}),
    "spans": (
        "spans",
        {
            "id": "t-1",
            "text": TEXT,
            "spans": [{**one, "text": part} for one, (part, _) in zip(make_named_spans(START_END, utf16=False), ENTITIES, strict=True)],
            "annotator": "kim",
            "revision": 4,
            "source": "https://example.org/t-1",
            "meta": {"page": 3},
            "reviewed": False,
        },
    ),
    "spans-entities": (
        "spans",
        {
            "id": "t-1",
            "text": TEXT,
            "entities": [{**one, "text": part} for one, (part, _) in zip(make_named_spans(START_END, utf16=True), ENTITIES, strict=True)],
            "source": "x",
        },
    ),
}  # fmt: skip


def read_body(body: object, form: str, **options: Any) -> list[LabelledSentence]:
    names = NAMES if form == "huggingface" else ()
    raw = body if isinstance(body, str) else json.dumps(body)
    return list(
        read_sentences(io.BytesIO(raw.encode()), format=form, options=ReadOptions(label_names=names, **options))
    )


def write_body(sentences: list[LabelledSentence], form: str, context: WriteContext | None = None) -> str:
    out = io.StringIO(newline="")
    write_sentences(out, form, sentences, context)
    return out.getvalue()


def parse_objects(text: str) -> list[dict[str, Any]]:
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def drop_region_ids(body: dict[str, Any]) -> dict[str, Any]:
    """Those are made anew; a span has no other identity than its place."""
    for annotation in body.get("annotations", ()):
        for one in annotation["result"]:
            one.pop("id", None)
    return body
