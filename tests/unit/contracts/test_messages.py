from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from service.contracts import (
    Assessment,
    BudgetPolicy,
    DatasetSettings,
    Decision,
    LabelledSentence,
    ModelName,
    read_sentence,
)
from service.contracts.sentence import MAX_WORD_CHARS
from service.contracts.validation import to_invalid_input
from service.errors import DecodeError, InvalidInput, TooLongError

BARE = {"tokens": ["Oslo", "waits"], "labels": ["B-LOC", "O"]}


def test_a_bare_message_is_enough() -> None:
    sentence = read_sentence(json.dumps(BARE))
    assert sentence.tokens == ("Oslo", "waits")
    assert sentence.dataset == "default"
    assert sentence.revision == 0
    assert sentence.id is None
    assert not sentence.update
    assert not sentence.deleted


def test_bytes_text_and_objects_read_the_same() -> None:
    text = json.dumps(BARE)
    assert read_sentence(text) == read_sentence(text.encode()) == read_sentence(BARE)


@pytest.mark.parametrize(
    ("change", "field", "word", "says"),
    [
        ({"labels": ["O"]}, "labels", None, "^`labels`: 1 label for 2 words: "),
        ({"tokens": [], "labels": []}, "tokens", None, "it is empty"),
        ({"tokens": "Oslo waits"}, "tokens", None, "^`tokens`: 'Oslo waits': give an array"),
        ({"tokens": None}, "tokens", None, "^`tokens`: null: give an array"),
        ({"labels": ["O", 3]}, "labels", 1, r"^word 1 \('waits'\), `labels`: 3: give text"),
        ({"tokens": ["Oslo", 3]}, "tokens", 1, "^word 1, `tokens`: 3: give text"),
        ({"dataset": "My Data"}, "dataset", None, "lower-case"),
        ({"revision": "7"}, "revision", None, "'7': give a whole number"),
        ({"revision": 2**70}, "revision", None, "less than"),
        ({"update": "yes"}, "update", None, "'yes': give true or false"),
        ({"id": ""}, "id", None, "at least 1 character"),
        ({"batch": ""}, "batch", None, "at least 1 character"),
        ({"batch": "x" * 129}, "batch", None, "at most 128 characters"),
        ({"batch": 7}, "batch", None, "7: give text"),
        ({"document": ""}, "document", None, "at least 1 character"),
        ({"document": "x" * 513}, "document", None, "at most 512 characters"),
        ({"document": 7}, "document", None, "7: give text"),
        ({"document": "\ud83d"}, "document", None, "give valid Unicode text"),
        (
            {"annotated_at": "yesterday"},
            "annotated_at",
            None,
            "'yesterday': give the time as ISO 8601 text, such as 2024",
        ),
        ({"annotated_at": 5}, "annotated_at", None, "ISO 8601"),
        ({"annotated_at": "12"}, "annotated_at", None, "ISO 8601"),
        ({"tokens": ["\ud83d", "waits"]}, "tokens", 0, "surrogate"),
        ({"labels": ["O", "\ud83d"]}, "labels", 1, "surrogate"),
        ({"annotator": "\ud83d"}, "annotator", None, "give valid Unicode text"),
        ({"meta": {"x": ["\ud83d"]}}, "meta", None, "surrogate"),
        ({"meta": {"x": float("nan")}}, "meta", None, "NaN"),
        ({"deleted": True}, "id", None, "needs the id"),
    ],
)
def test_errors_name_the_field(change: dict[str, object], field: str, word: int | None, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as caught:
        read_sentence({**BARE, **change})
    assert (caught.value.field, caught.value.word) == (field, word)


@pytest.mark.parametrize(
    "raw", [b"nope", b"\xff\xfe", b'{"tokens": ["a"', b"", b'{"tokens":["\\ud800"],"labels":["O"]}']
)
def test_bytes_that_are_not_json_fail_to_decode(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        read_sentence(raw)


def test_another_encoding_differs_from_broken_json() -> None:
    with pytest.raises(DecodeError, match=r"it is not UTF-8 \(byte 0xfc at 14\): encode it as UTF-8"):
        read_sentence('{"tokens": ["Zürich"], "labels": ["B-LOC"]}'.encode("latin-1"))
    with pytest.raises(DecodeError, match=r"^it is not JSON: "):
        read_sentence('{"tokens": ["Zürich"'.encode())


def test_all_fields_to_correct_are_named_up_to_five() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_sentence({"tokens": "Anna flew", "labels": "O O"}, location="sentences.1")
    array = 'give an array, as ["…", "…"]'
    assert str(caught.value) == f"`sentences.1.tokens`: 'Anna flew': {array}; `sentences.1.labels`: 'O O': {array}"
    with pytest.raises(InvalidInput) as caught:
        read_sentence({"tokens": ["a"], "labels": ["O"], **dict.fromkeys("abcdefg", 1)}, unknown_fields="forbid")
    assert str(caught.value).endswith(" (and 2 more)")


def test_of_many_wrong_words_only_the_first_is_reported() -> None:
    """An error object for each of a million words would take 11 seconds and 1 GB."""
    with pytest.raises(ValidationError) as errors:
        LabelledSentence.model_validate({"tokens": list(range(1_000)), "labels": list(range(1_000))})
    assert errors.value.error_count() == 2
    fields = {"id": "1", "reviewer": "kim", "verdict": "error", "labels": [1] * 1_000, "words": ["x"] * 1_000}
    with pytest.raises(ValidationError) as errors:
        Decision.model_validate(fields)
    assert errors.value.error_count() == 2


def test_json_that_is_no_object_is_refused() -> None:
    with pytest.raises(InvalidInput, match="object"):
        read_sentence(b"[]")


def test_deep_json_does_not_take_the_reader_down() -> None:
    with pytest.raises(InvalidInput):
        read_sentence(b"[" * 100_000)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (
            b'{"tokens": ["a"], "labels": ["O"], "lables": []}',
            "`lables`: there is no such field: the fields are tokens",
        ),
        (b'[{"tokens": ["a"], "labels": ["O"]}]', 'send several as {"sentences": […]}, or as NDJSON, one per line'),
        (
            b'{"tokens": ["a"], "labels": ["O"], "dataset": "My News"}',
            "`dataset`: 'My News' can't be the name of a dataset: a name has 1 to 64 lower-case letters",
        ),
    ],
)
def test_common_mistakes_are_explained(raw: bytes, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_sentence(raw, unknown_fields="forbid")
    assert problem in str(caught.value)


def test_unknown_fields_are_ignored_or_forbidden_as_asked() -> None:
    newer = {**BARE, "colour": "blue"}
    assert read_sentence(newer) == read_sentence(BARE)
    with pytest.raises(InvalidInput) as caught:
        read_sentence(newer, unknown_fields="forbid")
    assert caught.value.field == "colour"


def test_too_many_words_are_refused() -> None:
    with pytest.raises(TooLongError, match="3 words, the limit is 2"):
        read_sentence({"tokens": ["a"] * 3, "labels": ["O"] * 3}, max_words=2)


def test_words_and_sentences_with_too_many_characters_are_refused() -> None:
    """Before they are tokenised: one word of 15 MB took 3.5 GB and 16 s."""
    longest = ["x" * MAX_WORD_CHARS] * 10
    assert len(read_sentence({"tokens": longest, "labels": ["O"] * 10}).tokens) == 10
    with pytest.raises(TooLongError, match="100,001 characters, the limit is 100,000: split the sentence") as failure:
        read_sentence({"tokens": [*longest, "y"], "labels": ["O"] * 11})
    assert failure.value.field == "tokens"
    with pytest.raises(TooLongError, match="the word has 10,001 characters, the limit is 10,000") as failure:
        read_sentence({"tokens": ["Oslo", "x" * 10_001], "labels": ["O", "O"]}, location="sentences.3")
    assert (failure.value.field, failure.value.word) == ("sentences.3.tokens", 1)


def test_a_deleted_sentence_needs_no_words() -> None:
    assert read_sentence({"id": "7", "deleted": True}).tokens == ()


def test_an_assessment_loses_no_digit_on_the_way() -> None:
    score = 0.1 + 0.2
    assessment = Assessment(
        **dict(LabelledSentence.model_validate(BARE)),
        reason="scored",
        method="worst-token",
        token_score="self-confidence",
        score=score,
        priority=1 - 2**-53,
        thresholds={"O": score, "B-LOC": None},
        model=ModelName(name="tiny", fingerprint="0"),
    )
    back = Assessment.model_validate_json(assessment.model_dump_json(exclude_none=True))
    assert back.score == score
    assert back.priority == 1 - 2**-53
    assert back.thresholds == {"O": score, "B-LOC": None}


def test_policies_differ_by_kind() -> None:
    assert DatasetSettings().flag_policy is None
    settings = DatasetSettings.model_validate({"flag_policy": {"kind": "budget", "share": 0.05}})
    assert settings.flag_policy == BudgetPolicy(kind="budget", share=0.05)


@pytest.mark.parametrize(
    ("label_set", "problem"),
    [
        ([], "at least 1"),
        (["T"] * 2, "it names 'T' twice: name each type once"),
        ([f"T{number}" for number in range(1001)], "at most 1000"),
        (["T" * 201], "at most 200"),
        ([""], "at least 1"),
        ([3], "string"),
        ("PER", "tuple"),
    ],
)
def test_a_label_set_has_1_to_1000_types_each_once(label_set: object, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        DatasetSettings.model_validate({"label_set": label_set})


@pytest.mark.parametrize(
    ("label_map", "problem"),
    [
        ({f"T{number}": "PER" for number in range(1001)}, "at most 1000"),
        ({"T" * 203: "PER"}, "at most 202"),
        ({"PERSON": "T" * 203}, "at most 202"),
    ],
)
def test_a_label_map_has_at_most_1000_entries_and_no_long_label(label_map: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        DatasetSettings.model_validate({"label_map": label_map})
    longest = {f"T{number:0>201}": "PER" for number in range(1000)}
    assert DatasetSettings.model_validate({"label_map": longest}).label_map == longest


@pytest.mark.parametrize(
    "settings", [{"label_set": [f"T{k}" for k in range(1001)]}, {"label_map": {f"T{k}": "PER" for k in range(1001)}}]
)
def test_of_too_many_entries_the_error_says_how_many(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as refused:
        DatasetSettings.model_validate(settings)
    (field,) = settings
    assert str(to_invalid_input(refused.value)) == f"`{field}`: it has 1001 entries: give at most 1000 entries"


def test_a_label_set_is_optional() -> None:
    assert DatasetSettings().label_set is None
    assert DatasetSettings.model_validate({"label_set": ["T" * 200, "PER"]}).label_set == ("T" * 200, "PER")
