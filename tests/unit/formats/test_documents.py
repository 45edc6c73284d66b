"""The document of a sentence, as each format says it, and as exports write it again."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from service.contracts import LabelledSentence
from service.formats import FORMATS, ReadOptions, read_sentences, write_sentences
from service.formats.platforms.argilla.webhook import from_event as from_argilla_event
from service.formats.platforms.label_studio.webhook import from_event as from_label_studio_event
from service.log.codec import encode_sentence_key
from tests.support.platform_bodies import TEXT, make_argilla_event, make_event, make_task

NOW = datetime(2026, 3, 2, tzinfo=UTC)
LONG_TEXT = "Oslo wins. " * 60


def read_documents(raw: object, form: str | None = None, **options: Any) -> list[str | None]:
    text = raw if isinstance(raw, str) else json.dumps(raw)
    read_options = ReadOptions(id_prefix="news.conll:", label_names=("O", "B-LOC"), **options)
    return [
        sentence.document for sentence in read_sentences(io.BytesIO(text.encode()), format=form, options=read_options)
    ]


def write_text(sentences: list[LabelledSentence], form: str) -> str:
    out = io.StringIO(newline="")
    write_sentences(out, form, sentences)
    return out.getvalue()


# -- columns -----------------------------------------------------------------------------------------------------------

COLUMNS = {
    "marks": ("-DOCSTART- -X- O O\n\nOslo NNP I O\n\nwins VBZ I O\n\n-DOCSTART- -X- O O\n\nagain RB I O\n", [1, 1, 2]),
    "no blank line at a mark": ("-DOCSTART- O\nOslo O\n-DOCSTART- O\nwins O\n", [1, 2]),
    "sentences before the first mark": ("Oslo O\n\n-DOCSTART- O\n\nwins O\n", [None, 1]),
    "an empty document": ("-DOCSTART- O\n\n-DOCSTART- O\n\nOslo O\n", [2]),
    "no mark": ("Oslo O\n\nwins O\n", [None, None]),
    "a name after the mark": ("-DOCSTART- O\n\n# document = a b\nOslo O\n\nwins O\n\n-DOCSTART- O\n\nx O\n", ["a b", "a b", 2]),
    "no document from here on": ("-DOCSTART- O\n\nOslo O\n\n-DOCSTART- O\n\n# document =\nwins O\n", [1, None]),
    "CoNLL-U": ("# newdoc id = n1\n# sent_id = 1\nOslo O\n\nwins O\n\n# newdoc id = n2\nx O\n", ["n1", "n1", "n2"]),
    "a name that is too long": (f"# doc_id = {'x' * 513}\nOslo O\n", [None]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), COLUMNS.values(), ids=COLUMNS)
def test_columns(text: str, expected: list[object]) -> None:
    numbered = [f"news.conll:doc{one}" if isinstance(one, int) else one for one in expected]
    assert read_documents(text, "conll") == numbered


def test_columns_are_written_with_a_mark_between_documents() -> None:
    text = "-DOCSTART- O\n\nOslo O\n\nwins O\n\n-DOCSTART- O\n\nagain O\n"
    sentences = list(read_sentences(io.BytesIO(text.encode()), options=ReadOptions(id_prefix="f:")))
    assert write_text(sentences, "conll") == (
        "-DOCSTART-\tO\n\n# document = f:doc1\n# id = f:1\nOslo\tO\n\n# id = f:2\nwins\tO\n\n"
        "-DOCSTART-\tO\n\n# document = f:doc2\n# id = f:3\nagain\tO\n\n"
    )


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["document", "Document ID", "doc_id", "doc"])
def test_a_column_of_a_table_names_the_document(column: str) -> None:
    assert read_documents(f"{column},tokens,labels\nd-1,Oslo wins,O O\n,Oslo,O\n", "csv") == ["d-1", None]


def test_sentences_of_a_table_may_be_numbered_in_each_document() -> None:
    text = "document,sentence,word,label\na,1,Oslo,O\na,1,wins,O\nb,1,Oslo,O\nb,2,again,O\n"
    sentences = list(read_sentences(io.BytesIO(text.encode()), format="csv"))
    assert [(one.document, one.tokens) for one in sentences] == [
        ("a", ("Oslo", "wins")),
        ("b", ("Oslo",)),
        ("b", ("again",)),
    ]


def test_the_column_of_the_words_is_not_the_document() -> None:
    assert read_documents("document,labels\nOslo wins,O O\n", "csv", word="document") == [None]


# -- JSON --------------------------------------------------------------------------------------------------------------

WORDS = {"tokens": ["Oslo"], "labels": ["O"]}
ROW = {"tokens": ["Oslo"], "ner_tags": [1]}
SPANS = {"text": "Oslo", "spans": []}
DOCCANO = {"id": 9, "text": "Oslo", "label": []}
PRODIGY = {"text": "Oslo", "spans": [], "answer": "accept", "_task_hash": 4, "_input_hash": -7}
ANNOTATION = {"id": 41, "result": []}
TASK = {"id": 7, "data": {"text": "Oslo"}, "annotations": [ANNOTATION, {"id": 42, "was_cancelled": True}]}
TASK_MIN = {"id": 7, "text": "Oslo", "annotation_id": 41, "annotator": 1}
ANSWERS = {"entities": [{"value": [{"label": "LOC", "start": 0, "end": 4}], "user_id": u} for u in ("u-1", "u-2")]}
RECORD = {"id": "r-1", "fields": {"text": "Oslo"}, "responses": ANSWERS}

OBJECTS: dict[str, tuple[object, list[str | None]]] = {
    "words": ({**WORDS, "document": "d-1"}, ["d-1"]),
    "words with a number": ({**WORDS, "document": 12}, ["12"]),
    "words without": (WORDS, [None]),
    "a whole text is no document": ({**WORDS, "document": LONG_TEXT, "doc_id": "d-1"}, ["d-1"]),
    "an object is no document": ({**WORDS, "document": {"title": "x"}}, [None]),
    "huggingface": ({**ROW, "document_id": 3}, ["3"]),
    "huggingface columns": ({"tokens": [["Oslo"], ["x"]], "ner_tags": [[1], [0]], "doc_id": ["a", "b"]}, ["a", "b"]),
    "spans": ({**SPANS, "document": "d-1"}, ["d-1"]),
    "doccano": (DOCCANO, ["doccano:9"]),
    "doccano metadata": ({**DOCCANO, "document": "d-1"}, ["d-1"]),
    "prodigy": (PRODIGY, ["prodigy:input:-7"]),
    "prodigy meta": ({**PRODIGY, "meta": {"document": "d-1"}}, ["d-1"]),
    "prodigy rejected": ({**PRODIGY, "answer": "reject"}, ["prodigy:input:-7"]),
    "label studio": (TASK, ["label-studio:task:7"] * 2),
    "label studio data": ({**TASK, "data": {"text": "Oslo", "doc_id": "d-1"}}, ["d-1"] * 2),
    "label studio meta": ({**TASK, "meta": {"document": "d-1"}}, ["d-1"] * 2),
    "label studio without a task id": ({**TASK, "id": None}, [None] * 2),
    "label studio minimal": (TASK_MIN, ["label-studio:task:7"]),
    "label studio minimal data": ({**TASK_MIN, "document": "d-1"}, ["d-1"]),
    "argilla": (RECORD, ["argilla:task:r-1"] * 2),
    "argilla metadata": ({**RECORD, "metadata": {"document": "d-1"}}, ["d-1"] * 2),
    "argilla with a long id": ({**RECORD, "id": "r" * 500, "responses": {"entities": [ANSWERS["entities"][0]]}}, [None]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), OBJECTS.values(), ids=OBJECTS)
def test_objects(body: object, expected: list[str | None]) -> None:
    assert read_documents(body) == expected


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("label-studio", {**TASK, "data": {"document": "Oslo"}}),
        ("doccano", {"id": 9, "document": "Oslo", "label": []}),
        ("spans", {"document": "Oslo", "spans": []}),
    ],
)
def test_the_text_itself_is_not_the_document(form: str, body: object) -> None:
    assert "Oslo" not in read_documents(body, form, word="document")


# -- webhooks ----------------------------------------------------------------------------------------------------------


def test_annotations_of_a_task_and_the_deletion_of_the_task_have_one_key() -> None:
    event = make_event(task=make_task(data={"text": TEXT}))
    (annotation,) = from_label_studio_event(event, received_at=NOW).sentences
    deletion_event = {"action": "TASKS_DELETED", "tasks": [{"id": 7}]}
    (deletion,) = from_label_studio_event(deletion_event, received_at=NOW).sentences
    assert encode_sentence_key(annotation) == encode_sentence_key(deletion)


def test_a_discarded_response_stays_in_the_document_of_its_record() -> None:
    events = [make_argilla_event(), make_argilla_event("response.updated", status="discarded")]
    sentences = [from_argilla_event(event, received_at=NOW).sentences[0] for event in events]
    assert [sentence.document for sentence in sentences] == ["argilla:task:rec-1"] * 2


# -- from one format to another ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", sorted(FORMATS.keys() - {"argilla"}))
def test_sentences_from_elsewhere_keep_their_document_in_an_export(form: str) -> None:
    sentence = LabelledSentence(id="1", tokens=("Oslo",), labels=("B-LOC",), document="d-1")
    assert read_documents(write_text([sentence], form), form) == ["d-1"]
