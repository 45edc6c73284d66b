from __future__ import annotations

import io
import json
from datetime import UTC, datetime

import pytest

from service.errors import DecodeError, InvalidInput
from service.formats import FileRecord, ReadOptions, read_records, read_sentences

NAMES = ["O", "B-PER", "I-PER"]


def read_all(*lines: object, **options: object) -> list[FileRecord]:
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return list(read_records(io.BytesIO(text.encode()), format="jsonl", options=ReadOptions(**options)))  # type: ignore[arg-type]


def read_one(*lines: object, **options: object) -> FileRecord:
    (record,) = read_all(*lines, **options)
    return record


@pytest.mark.parametrize(
    "line",
    [
        {"tokens": ["EU", "wins"], "labels": ["B-ORG", "O"]},
        {"tokens": ["EU", "wins"], "ner_tags": ["B-ORG", "O"]},
        {"words": ["EU", "wins"], "labels": ["B-ORG", "O"]},
        {"tokens": ["EU", "wins"], "tags": ["B-ORG", "O"], "pos_tags": [1, 2], "labels": None},
        {"tokens": ["EU", "wins"], "labels": ["B-ORG", "O"], "ner_tags": [3, 0]},
    ],
)
def test_field_names(line: dict[str, object]) -> None:
    sentence = read_one(line).sentence
    assert sentence is not None
    assert (sentence.tokens, sentence.labels) == (("EU", "wins"), ("B-ORG", "O"))


def test_named_fields() -> None:
    sentence = read_one({"toks": ["EU"], "gold": ["B-ORG"]}, word="toks", label="gold").sentence
    assert sentence is not None
    assert sentence.labels == ("B-ORG",)


def test_other_fields_are_read_through() -> None:
    sentence = read_one(
        {
            "tokens": ["a"],
            "labels": ["O"],
            "id": 17,
            "dataset": "news",
            "revision": 3,
            "update": True,
            "annotator": "ann",
            "source": "task 5",
            "annotated_at": "2024-05-01T10:00:00Z",
            "meta": {"batch": 2},
            "score": 0.2,
        }
    ).sentence
    assert sentence is not None
    assert (sentence.id, sentence.dataset, sentence.revision, sentence.update) == ("17", "news", 3, True)
    assert (sentence.annotator, sentence.source, sentence.meta) == ("ann", "task 5", {"batch": 2})
    assert sentence.annotated_at == datetime(2024, 5, 1, 10, tzinfo=UTC)


def test_ids_and_places_where_the_data_has_none() -> None:
    one = {"tokens": ["a"], "labels": ["O"]}
    records = read_all(one, "", one)
    assert [(r.sentence.id, r.location, r.sentence.source) for r in records if r.sentence] == [
        ("1", "<stream>:1", "<stream>:1"),
        ("2", "<stream>:3", "<stream>:3"),
    ]


def test_deleted_sentences_need_no_words() -> None:
    sentence = read_one({"id": "x", "deleted": True}).sentence
    assert sentence is not None
    assert sentence.deleted


HINTS: list[dict[str, object]] = [
    {"features": {"ner_tags": {"feature": {"names": NAMES, "_type": "ClassLabel"}, "_type": "Sequence"}}},
    {"features": {"ner_tags": {"sequence": {"class_label": {"names": {"0": "O", "1": "B-PER", "2": "I-PER"}}}}}},
    {"names": NAMES},
]


@pytest.mark.parametrize("hint", HINTS)
def test_numbered_labels_with_a_hint(hint: dict[str, object]) -> None:
    one = {"tokens": ["Ann", "Lee", "won"], "ner_tags": [1, 2, 0]}
    for lines in ([hint, one], [one | hint]):
        sentence = read_one(*lines).sentence
        assert sentence is not None
        assert sentence.labels == ("B-PER", "I-PER", "O")
        assert sentence.id == "1"


def test_numbered_labels_with_the_option() -> None:
    sentence = read_one({"tokens": ["Ann", "won"], "ner_tags": [1, 0]}, label_names=tuple(NAMES)).sentence
    assert sentence is not None
    assert sentence.labels == ("B-PER", "O")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"tokens": ["a"], "ner_tags": [3]}, "1: word 0 ('a'), `labels`: the label is the number 3: say what the numbers mean with --label-names"),
        ({"tokens": ["a"], "labels": ["O", "O"]}, "`labels`: 2 labels for 1 word:"),
        ({"tokens": [], "labels": []}, "`tokens`: it is empty"),
        ({"tokens": ["a", 7], "labels": ["O", "O"]}, "word 1, `tokens`: 7: give text in quotes"),
        ({"tokens": ["a"], "labels": [True]}, "word 0 ('a'), `labels`: true: give text in quotes"),
        ({"tokens": ["a"], "labels": "O"}, "`labels`: 'O': give an array"),
        ({"text": "a b", "spans": []}, "`tokens`: none of tokens, words is there (the object has text, spans): name the field with --word-column"),
        ({"tokens": ["a"]}, "`labels`: none of labels, ner_tags, tags is there"),
        ({"tokens": ["a"], "labels": ["O"], "dataset": "No Good"}, "`dataset`: 'No Good' can't be the name of a dataset: a name has 1 to 64 lower-case letters"),
        ('{"tokens": ["a"', "not JSON: Expecting ',' delimiter at column 16"),
        ('[{"tokens": ["a"]}]', "`labels`: none of labels, ner_tags, tags is there"),
        ("3", "not a JSON object: write one per line, or all in an array"),
        ('{"a": ' * 100_000, "not JSON: too deep or too large"),
        ('{"tokens": ["\\ud83d"], "labels": ["O"]}', "half of a surrogate pair"),
        ('{"tokens": ["a"], "labels": ["O"], "revision": ' + "9" * 5000 + "}", "not JSON: too deep or too large"),
    ],
)  # fmt: skip
def test_errors_name_line_and_field(line: object, message: str) -> None:
    error = read_one(line).error
    assert isinstance(error, InvalidInput)
    assert str(error).startswith("<stream>:1: ")
    assert message in str(error)


def test_a_number_out_of_range() -> None:
    assert "the label is the number 3, and 3 label names are known (0 to 2)" in str(
        read_one({"tokens": ["a"], "labels": [3]}, label_names=tuple(NAMES)).error
    )
    assert "the number -1" in str(read_one({"tokens": ["a"], "labels": [-1]}, label_names=tuple(NAMES)).error)


def test_bad_bytes_cost_one_sentence() -> None:
    good = b'{"tokens": ["a"], "labels": ["O"]}\n'
    records = list(read_records(io.BytesIO(good + b'{"tokens": ["\xff"], "labels": ["O"]}\n' + good)))
    assert [r.error is None for r in records] == [True, False, True]
    assert isinstance(records[1].error, DecodeError)
    assert "<stream>:2: byte 0xff is not UTF-8" in str(records[1].error)


def test_read_sentences_stops_at_the_first_error() -> None:
    reading = read_sentences(io.BytesIO(b'{"tokens": ["a"], "labels": ["O"]}\nno\n'), format="jsonl")
    assert next(reading).id == "1"
    with pytest.raises(DecodeError, match="<stream>:2: not JSON"):
        next(reading)
