"""doccano, Prodigy, Hugging Face, and texts with spans."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from service.formats import FileRecord, ReadOptions, read_records
from tests.support.platform_bodies import TEXT

TOKENS = ("Mara", "Quill", "flew", "from", "Tallinn", "to", "Riga", ".")
LABELS = ("B-PER", "I-PER", "O", "O", "O", "O", "B-LOC", "O")
NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
NUMBERS = [1, 2, 0, 0, 0, 0, 3, 0]


def read_all(*objects: object, form: str | None = None, **options: Any) -> list[FileRecord]:
    text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in objects)
    return list(read_records(io.BytesIO(text.encode()), format=form, options=ReadOptions(**options)))


def read_error(*objects: object, **options: Any) -> str:
    (record,) = read_all(*objects, **options)
    return str(record.error)


# -- doccano -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        {"id": 9, "text": TEXT, "label": [[0, 10, "PER"], [32, 36, "LOC"]], "Comments": []},
        {"id": 9, "text": TEXT, "labels": [[32, 36, "LOC"], [0, 10, "PER"]]},
        {
            "id": 9,
            "text": TEXT,
            "entities": [
                {"id": 1, "label": "PER", "start_offset": 0, "end_offset": 10},
                {"id": 2, "label": "LOC", "start_offset": 32, "end_offset": 36},
            ],
            "relations": [],
        },
    ],
)
def test_doccano(line: dict[str, object]) -> None:
    (record,) = read_all(line)
    assert record.sentence is not None
    assert (record.sentence.id, record.sentence.tokens, record.sentence.labels) == ("doccano:9", TOKENS, LABELS)
    assert (record.sentence.meta or {})["format"] == "doccano"


@pytest.mark.parametrize(
    ("start", "end", "unit", "told_by"),
    [(19, 29, "utf-16", "word boundaries"), (16, 26, "characters", "word boundaries"), (21, 22, "utf-16", "platform")],
)
def test_doccano_counts_as_browsers_do(start: int, end: int, unit: str, told_by: str) -> None:
    """Its lists tell no text. What was imported and never touched may be counted in characters."""
    line = {"id": 9, "text": "🚒🚒🚒 crews drive firetrucks daily", "label": [[start, end, "CAR"]]}
    (record,) = read_all(line, form="doccano")
    assert record.sentence is not None
    assert record.sentence.tokens[record.sentence.labels.index("B-CAR")] == "firetrucks"
    meta = record.sentence.meta or {}
    assert (meta["given_offsets"], meta["offsets_told_by"]) == (unit, told_by)


def test_doccano_columns() -> None:
    (record,) = read_all("Riga\tB-LOC\nwon\tO\n", form="doccano")
    assert record.sentence is not None
    assert record.sentence.labels == ("B-LOC", "O")


def test_doccano_errors() -> None:
    assert "`label.1`: it overlaps label.0" in read_error({"text": TEXT, "label": [[0, 10, "PER"], [5, 10, "LOC"]]})
    assert "`label`: none of label, labels, entities" in read_error({"text": TEXT}, form="doccano")
    assert "`text`: it is missing" in read_error({"label": []}, form="doccano")
    assert "`label`: it must be an array" in read_error({"text": TEXT, "label": "PER"})


# -- Prodigy -----------------------------------------------------------------------------------------------------------


def prodigy(**more: object) -> dict[str, Any]:
    words = [("Mara", 0), ("Quill", 5), ("flew", 11), ("to Riga", 16)]
    return {
        "text": "Mara Quill flew to Riga",
        "tokens": [
            {"text": word, "start": start, "end": start + len(word), "id": number, "ws": True}
            for number, (word, start) in enumerate(words)
        ],
        "spans": [{"start": 0, "end": 10, "token_start": 0, "token_end": 1, "label": "PER"}],
        "_task_hash": -77,
        "_view_id": "ner_manual",
        "_annotator_id": "trips-nadia",
        "_timestamp": 1772359200,
        "answer": "accept",
    } | more


def test_prodigy_uses_its_own_tokens() -> None:
    (record,) = read_all(prodigy())
    sentence = record.sentence
    assert sentence is not None
    assert (sentence.tokens, sentence.labels) == (("Mara", "Quill", "flew", "to Riga"), ("B-PER", "I-PER", "O", "O"))
    assert (sentence.id, sentence.annotator) == ("prodigy:-77:trips-nadia", "trips-nadia")
    assert sentence.revision == 1772359200 * 1_000_000
    assert sentence.annotated_at == datetime.fromtimestamp(1772359200, UTC)
    assert sentence.meta is not None
    assert sentence.meta["splitter"] == "prodigy-tokens"
    assert sentence.meta["offsets"] == [[0, 4], [5, 10], [11, 15], [16, 23]]


def test_prodigy_without_tokens_and_with_tokens_only() -> None:
    line = prodigy(spans=[{"start": 0, "end": 10, "label": "PER"}])
    del line["tokens"]
    (record,) = read_all(line)
    assert record.sentence is not None
    assert record.sentence.labels == ("B-PER", "I-PER", "O", "O", "O")
    (record,) = read_all(prodigy(spans=[{"token_start": 3, "token_end": 3, "label": "LOC"}]))
    assert record.sentence is not None
    assert record.sentence.labels == ("O", "O", "O", "B-LOC")


@pytest.mark.parametrize("answer", ["reject", "ignore"])
def test_only_an_accepted_answer_says_that_the_spans_are_right(answer: str) -> None:
    (record,) = read_all(prodigy(answer=answer))
    assert record.sentence is not None
    assert (record.sentence.id, record.sentence.deleted) == ("prodigy:-77:trips-nadia", True)
    assert (record.sentence.meta or {})["answer"] == answer


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (prodigy(answer="maybe"), "`answer`: 'maybe' is not one of accept, reject, ignore"),
        (prodigy(answer="reject", _task_hash=None), "without `_task_hash` no earlier answer can be deleted"),
        (prodigy(_view_id="ner"), "`_view_id`: an answer about one span says nothing about the other words"),
        (prodigy(spans=[{"start": 0, "end": 4, "token_start": 0, "token_end": 1, "label": "PER"}]), "`spans.0`: characters 0 to 4, and its tokens are 0 to 10"),
        (prodigy(spans=[{"token_start": 2, "token_end": 4, "label": "PER"}]), "`spans.0`: tokens 2 to 4 don't fit 4 tokens"),
        (prodigy(spans=[{"token_start": 2, "token_end": 1, "label": "PER"}]), "don't fit"),
        (prodigy(spans=[7]), "`spans.0`: it must be an object"),
        (prodigy(tokens=[{"text": "Mira", "start": 0, "end": 4}]), "`tokens.0`: 'Mira' does not match the text at its offsets"),
        (prodigy(tokens=[{"text": "", "start": 0, "end": 0}]), "`tokens.0`: it starts before the end of the previous token, is empty"),
        (prodigy(text=None), "`text`: it is missing"),
        (prodigy(tokens=None, text=None), "`text`: it is missing"),
        (prodigy(_timestamp=1e300), "`_timestamp`: it is not a time in seconds"),
    ],
)  # fmt: skip
def test_prodigy_errors(line: dict[str, Any], problem: str) -> None:
    assert problem in read_error(line)


def test_a_field_of_spans_that_was_named_must_be_there() -> None:
    """Without it the line would be read as if nobody had found an entity."""
    assert "`spam`: it is missing, the line has text, tokens, spans" in read_error(prodigy(), label="spam")


# -- Hugging Face ------------------------------------------------------------------------------------------------------

FEATURES = {"ner_tags": {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "Sequence"}}
VIEWER = {
    "features": [
        {"feature_idx": 0, "name": "tokens", "type": {"feature": {"dtype": "string"}, "_type": "Sequence"}},
        {"feature_idx": 1, "name": "ner_tags", "type": FEATURES["ner_tags"]},
    ],
    "rows": [
        {"row_idx": 0, "row": {"id": "0", "tokens": TOKENS, "ner_tags": NUMBERS}, "truncated_cells": []},
        {"row_idx": 1, "row": {"id": "1", "tokens": ["Riga"], "ner_tags": [3]}, "truncated_cells": []},
    ],
    "num_rows_total": 2,
}


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        ([VIEWER], {}),
        ([{"tokens": [TOKENS, ["Riga"]], "ner_tags": [NUMBERS, [3]], "id": ["0", "1"]}], {"label_names": tuple(NAMES)}),
        ([{"tokens": [TOKENS, ["Riga"]], "ner_tags": [NUMBERS, [3]], "id": ["0", "1"], "features": FEATURES}], {}),
        ([{"features": FEATURES}, {"id": "0", "tokens": TOKENS, "ner_tags": NUMBERS}, {"id": "1", "tokens": ["Riga"], "ner_tags": [3]}], {}),
    ],
)  # fmt: skip
def test_hugging_face(lines: list[object], options: dict[str, Any]) -> None:
    form = "huggingface" if len(lines) > 1 else None
    first, second = (one.sentence for one in read_all(*lines, form=form, **options))
    assert first is not None
    assert second is not None
    assert (first.id, first.tokens, first.labels) == ("0", TOKENS, LABELS)
    assert (second.id, second.labels) == ("1", ("B-LOC",))


def test_hugging_face_errors() -> None:
    assert "`ner_tags`: 1 rows where the words have 2" in read_error({"tokens": [["a"], ["b"]], "ner_tags": [["O"]]})
    assert "`rows.0`: it holds no `row`" in read_error({"features": [], "rows": [3]})
    assert "say what the numbers mean with --label-names" in read_error({"tokens": [["a"]], "ner_tags": [[1]]})


# -- spans -------------------------------------------------------------------------------------------------------------


def test_texts_with_spans() -> None:
    line = {
        "id": 3, "text": TEXT, "annotator": "nadia", "meta": {"batch": 1},
        "spans": [[0, 10, "PER"], {"start": 32, "end": 36, "label": "LOC", "text": "Riga"}],
    }  # fmt: skip
    (record,) = read_all(line)
    sentence = record.sentence
    assert sentence is not None
    assert (sentence.id, sentence.annotator, sentence.tokens, sentence.labels) == ("3", "nadia", TOKENS, LABELS)
    assert sentence.meta is not None
    assert (sentence.meta["batch"], sentence.meta["format"], sentence.meta["alignment"]) == (1, "spans", "exact")


def test_fields_of_a_text_with_spans_can_be_named() -> None:
    (record,) = read_all({"body": TEXT, "marks": [[0, 10, "PER"]]}, form="spans", word="body", label="marks")
    assert record.sentence is not None
    assert record.sentence.labels[:2] == ("B-PER", "I-PER")


def test_deleted_texts_need_no_text() -> None:
    (record,) = read_all({"id": "x", "deleted": True}, form="spans")
    assert record.sentence is not None
    assert record.sentence.deleted


def test_errors_of_texts_with_spans() -> None:
    assert "`spans`: none of spans" in read_error({"text": TEXT}, form="spans")
    assert "`meta`: it must be an object" in read_error({"text": TEXT, "spans": [], "meta": 3})
    assert "`spans.0`: characters 0 to 99 don't fit" in read_error({"text": TEXT, "spans": [[0, 99, "PER"]]})
    assert "5000 words, the limit is 100: split the sentence" in read_error(
        {"text": "a " * 5000, "spans": []}, max_words=100
    )
