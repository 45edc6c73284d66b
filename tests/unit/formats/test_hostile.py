"""Whatever is sent, the answer is sentences or an InvalidInput: platforms change, and the network is open."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import read_sentence
from service.errors import InvalidInput
from service.formats import FORMATS, ReadOptions, choose_format, read_records, write_sentences
from service.formats.platforms.argilla import webhook as argilla
from service.formats.platforms.label_studio import webhook as label_studio
from service.formats.text.word_splitter import SPLITTER
from tests.support import platform_bodies as bodies

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 3, 2, tzinfo=UTC)
PLATFORMS = [name for name in FORMATS if name not in ("conll", "csv", "tsv")]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("\ud83d")
KEYS = st.sampled_from(
    ["action", "annotation", "annotations", "answer", "data", "deleted", "entities", "features", "fields", "id", "label",
     "labels", "meta", "ner_tags", "project", "record", "responses", "result", "rows", "spans", "start", "task", "text",
     "timestamp", "tokens", "type", "updated_at", "value", "values", "was_cancelled"]
)  # fmt: skip
ANY_JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)
ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    3.5,
    2**70,
    "",
    "x",
    "\ud83d",
    [],
    {},
    [[]],
    [{}],
    {"id": 1},
    float("nan"),
    "2026-01-01T00:00:00Z",
]
CHOICE = {"type": "choices", "from_name": "topic", "to_name": "text", "value": {"choices": ["travel"]}}
LINES: list[dict[str, Any]] = [
    bodies.make_event(),
    bodies.make_event("ANNOTATION_UPDATED"),
    bodies.make_event("ANNOTATIONS_DELETED"),
    bodies.make_event("ANNOTATIONS_CREATED", annotation=[bodies.make_annotation(CHOICE)], task=[bodies.make_task()]),
    bodies.make_task(annotations=[bodies.make_annotation(bodies.make_region("Riga", "LOC"), CHOICE)]),
    {"annotation_id": 3, "id": 1, "text": "a b", "label": [{"start": 0, "end": 1, "text": "a", "labels": ["X"]}], "annotator": 1},
    bodies.make_argilla_event(),
    bodies.make_argilla_event("response.deleted"),
    {"id": "x", "fields": {"text": bodies.TEXT}, "responses": {"q": [{"value": [bodies.make_span("Riga", "LOC")]}], "m": [{"value": "x"}]},
     "suggestions": {"q": {"value": []}}, "metadata": {"a": 1}},
    {"id": "x", "fields": {"text": bodies.TEXT}, "responses": [{"id": "r", "values": {"q": {"value": [bodies.make_span("Riga", "LOC")]}}}]},
    {"text": bodies.TEXT, "label": [[0, 4, "PER"]], "id": 1},
    {"text": "a b", "tokens": [{"text": "a", "start": 0, "end": 1}], "spans": [{"start": 0, "end": 1, "label": "X"}],
     "answer": "accept", "_task_hash": 1, "_timestamp": 5},
    {"features": [{"name": "ner_tags", "type": {"names": ["O"]}}], "rows": [{"row": {"tokens": ["a"], "ner_tags": [0]}}]},
    {"tokens": [["a"]], "ner_tags": [[0]], "names": ["O"]},
    {"text": "a b", "spans": [{"start": 0, "end": 1, "label": "X", "text": "a"}], "meta": {}, "annotated_at": "2026-01-01"},
]  # fmt: skip


def read_all(value: object, form: str | None = None) -> None:
    """Sentences or errors; and what is a sentence can be written again."""
    text = json.dumps(value)
    try:
        for record in read_records(io.BytesIO(text.encode()), format=form, options=ReadOptions(label_names=("O",))):
            assert (record.sentence is None) != (record.error is None)
            if record.sentence is not None:
                record.sentence.model_dump_json().encode()
                write_sentences(io.StringIO(), choose_format(record.sentence), [record.sentence])
    except InvalidInput:
        return


def deliver(from_event: Callable[..., Any], value: object) -> None:
    if not isinstance(value, dict):
        return
    try:
        for sentence in from_event(value, received_at=NOW, options=ReadOptions(base_url="https://x.example")).sentences:
            sentence.model_dump_json().encode()
    except InvalidInput:
        return


@settings(max_examples=60, deadline=None)
@given(value=ANY_JSON)
def test_any_json_in_a_file(value: object) -> None:
    for form in PLATFORMS:
        read_all(value, form)


@settings(max_examples=60, deadline=None)
@given(value=ANY_JSON, kind=st.sampled_from(["response.created", "response.updated", "response.deleted"]))
def test_any_json_in_a_webhook(value: object, kind: str) -> None:
    for action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_CREATED", "ANNOTATIONS_DELETED"):
        deliver(label_studio.from_event, {**value, "action": action} if isinstance(value, dict) else value)
    deliver(argilla.from_event, {**value, "type": kind} if isinstance(value, dict) else value)


def _list_positions(value: object) -> list[tuple[Any, Any]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    positions = []
    for key, child in inner:
        positions += [(value, key), *_list_positions(child)]
    return positions


@pytest.mark.parametrize("form", FORMATS)
def test_any_meta_on_the_way_back(form: str) -> None:
    """Any program may write messages, with whatever in the place of what converters note."""
    for name in ("text", "scheme", "splitter", "offsets", "loose", "given_offsets", "kept", "task", "project", "record",
                 "field", "text_field", "from_name", "question", "responses", "user", "label_names", "rows"):  # fmt: skip
        for odd in (*ODD[:-1], [[0, 99]], [[-5, 2]], {"result": [5], "values": 5, "fields": 5, "data": 5}):
            meta = {"format": form, "text": "a b", "splitter": SPLITTER, "task": "7", "record": "r", name: odd}
            fields = {"id": f"{form}:1", "tokens": ["a", "b"], "labels": ["B-X", "O"], "meta": meta}
            try:
                sentence = read_sentence(fields)
                write_sentences(io.StringIO(), form, [sentence, sentence])
            except InvalidInput:
                continue


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_bodies_with_one_odd_value(line: dict[str, Any]) -> None:
    """Each value of a right body in turn replaced by each odd one: close to right is where converters trip."""
    text = json.dumps(line)
    for number in range(len(_list_positions(line))):
        for odd in ODD:
            changed = json.loads(text)
            holder, key = _list_positions(changed)[number]
            holder[key] = odd
            read_all(changed)
            deliver(label_studio.from_event, changed)
            deliver(argilla.from_event, changed)


@settings(max_examples=60, deadline=None)
@given(head=st.sampled_from([b"", b"[", b"{", b'{"text": "', b"[{", b'{"tokens": [']), tail=st.binary(max_size=40))
def test_any_bytes(head: bytes, tail: bytes) -> None:
    for form in PLATFORMS:
        try:
            for record in read_records(io.BytesIO(head + tail), format=form):
                assert (record.sentence is None) != (record.error is None)
        except InvalidInput:
            continue
