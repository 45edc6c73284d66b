from __future__ import annotations

import json
from typing import Any

import pytest

from service.contracts import LabelledSentence, read_sentence
from service.contracts.probabilities import MAX_CLASSES, MAX_PROBABILITIES
from service.errors import InvalidInput

CLASSES = ["O", "B-LOC", "I-LOC"]
ROWS = [[0.1, 0.8, 0.1], [1, 0, 0]]
SENTENCE = {"tokens": ["Oslo", "waits"], "labels": ["B-LOC", "O"]}


def with_probabilities(**changes: object) -> dict[str, Any]:
    return {**SENTENCE, "probabilities": {"classes": CLASSES, "words": ROWS, **changes}}


def test_probabilities_are_read_from_json_and_from_objects() -> None:
    message = with_probabilities()
    sentence = read_sentence(json.dumps(message), unknown_fields="forbid")
    assert sentence == read_sentence(message)
    assert sentence.probabilities is not None
    assert sentence.probabilities.classes == tuple(CLASSES)
    assert sentence.probabilities.words == ((0.1, 0.8, 0.1), (1.0, 0.0, 0.0))


def test_probabilities_survive_encoding_bit_for_bit() -> None:
    thirds = [[1 / 3, 1 / 3, 1 / 3], [0.1 + 0.2, 0.7 - 1e-17, 0.0]]
    sentence = read_sentence(with_probabilities(words=thirds))
    again = LabelledSentence.model_validate_json(sentence.model_dump_json(exclude_defaults=True))
    assert again == sentence


@pytest.mark.parametrize(
    ("changes", "field", "word", "says"),
    [
        ({"words": [ROWS[0]]}, "words", None, "1 row for 2 words: give each word one row"),
        ({"words": [*ROWS, ROWS[0]]}, "words", None, "3 rows for 2 words"),
        ({"words": [ROWS[0], [1, 0]]}, "words", 1, "2 probabilities for 3 classes: give one probability per class"),
        ({"words": [ROWS[0], []]}, "words", 1, "0 probabilities for 3 classes"),
        ({"words": [[0.5, 0.5, 0.0011], ROWS[1]]}, "words", 0, "the probabilities sum to 1.0011: make them sum to 1"),
        ({"words": [[0.5, 0.4989, 0.0], ROWS[1]]}, "words", 0, "the probabilities sum to 0.9989"),
        ({"words": [ROWS[0], [1.5, -0.5, 0]]}, "words", 1, "-0.5: give at least 0"),
        ({"words": [ROWS[0], [float("nan"), 0.5, 0.5]]}, "words", 1, "nan: give a number that is neither NaN nor"),
        ({"words": [ROWS[0], [float("inf"), 0, 0]]}, "words", 1, "inf: give a number that is neither NaN nor"),
        ({"words": [ROWS[0], ["1", 0, 0]]}, "words", 1, "'1': give a number"),
        ({"words": [ROWS[0], [True, 0, 0]]}, "words", 1, "true: give a number"),
        ({"words": [ROWS[0], 1]}, "words", 1, "1: give an array"),
        ({"classes": ["O"]}, "classes", None, "give at least 2 entries"),
        ({"classes": [f"L{k}" for k in range(MAX_CLASSES + 1)]}, "classes", None, "give at most 1000 entries"),
        ({"classes": ["O", "B-LOC", "O"]}, "classes", None, "the class 'O' is there twice: name each class once"),
        ({"classes": ["O", "B-LOC", ""]}, "classes.2", None, "give at least 1 character"),
        ({"classes": ["O", "B-LOC", "\ud800"]}, "classes.2", None, "valid Unicode"),
        ({"labels": CLASSES}, "labels", None, "there is no such field: the fields are classes, words"),
    ],
)
def test_errors_name_the_field(changes: dict[str, Any], field: str, word: int | None, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as raised:
        read_sentence(with_probabilities(**changes), unknown_fields="forbid")
    assert raised.value.field == f"probabilities.{field}"
    assert raised.value.word == word
    assert raised.value.stage == "validate"
    if word is not None:
        assert raised.value.token == SENTENCE["tokens"][word]


def test_the_sum_may_be_off_by_a_thousandth() -> None:
    read_sentence(with_probabilities(words=[[0.5, 0.5, 0.0009], [0.5, 0.4991, 0]]))


def test_the_number_of_probabilities_is_limited() -> None:
    classes = [f"L{k}" for k in range(MAX_CLASSES)]
    words = MAX_PROBABILITIES // MAX_CLASSES + 1
    row = [1.0] + [0.0] * (MAX_CLASSES - 1)
    message = {
        "tokens": ["a"] * words,
        "labels": ["L0"] * words,
        "probabilities": {"classes": classes, "words": [row] * words},
    }
    with pytest.raises(InvalidInput, match="1,001,000 probabilities, the limit is 1,000,000: split the sentence"):
        read_sentence(message)


def test_a_deleted_sentence_needs_no_rows() -> None:
    message = {"id": "7", "deleted": True, "probabilities": {"classes": CLASSES, "words": []}}
    assert read_sentence(message).deleted
