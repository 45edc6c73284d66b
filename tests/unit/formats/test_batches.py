"""The delivery that a sentence is part of, as files and platforms name it, and as exports write it again."""

from __future__ import annotations

import io
import json

import pytest

from service.formats import read_sentences, write_sentences

WORDS = {"tokens": ["Oslo"], "labels": ["O"]}
SPANS = {"text": "Oslo", "spans": []}
TASK = {"id": 7, "data": {"text": "Oslo"}, "annotations": [{"id": 41, "result": []}]}
ANSWERS = {"entities": [{"value": [{"label": "LOC", "start": 0, "end": 4}], "user_id": "u-1"}]}
RECORD = {"id": "r-1", "fields": {"text": "Oslo"}, "responses": ANSWERS}
OBJECTS = {
    "words": ({**WORDS, "batch": "7"}, "7"),
    "a number": ({**WORDS, "batch": 7}, "7"),
    "an object is no batch": ({**WORDS, "batch": {"size": 8}}, None),
    "a name that is too long": ({**WORDS, "batch": "x" * 129}, None),
    "spans": ({**SPANS, "batch": "7"}, "7"),
    "label studio data": ({**TASK, "data": {"text": "Oslo", "batch": "7"}}, "7"),
    "argilla metadata": ({**RECORD, "metadata": {"batch": "7"}}, "7"),
    "label studio meta": ({**TASK, "meta": {"batch": 7}}, "7"),
}


@pytest.mark.parametrize(("body", "expected"), OBJECTS.values(), ids=OBJECTS)
def test_json(body: object, expected: str | None) -> None:
    (sentence,) = read_sentences(io.BytesIO(json.dumps(body).encode()))
    assert sentence.batch == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Batch,tokens,labels\n7,Oslo wins,O O\n,Oslo,O\n", ["7", None]),
        ("sentence_id,word,label,batch\n1,Oslo,O,7\n1,wins,O,7\n2,Ivo,O,\n", ["7", None]),
    ],
    ids=["a row per sentence", "a row per word"],
)
def test_tables(text: str, expected: list[str | None]) -> None:
    sentences = list(read_sentences(io.BytesIO(text.encode()), format="csv"))
    assert [sentence.batch for sentence in sentences] == expected
    out = io.StringIO(newline="")
    write_sentences(out, "csv", sentences)
    again = read_sentences(io.BytesIO(out.getvalue().encode()), format="csv")
    assert [sentence.batch for sentence in again] == expected


def test_a_table_without_batches_has_no_such_column() -> None:
    out = io.StringIO(newline="")
    write_sentences(out, "csv", read_sentences(io.BytesIO(json.dumps(WORDS).encode())))
    assert "batch" not in out.getvalue()
