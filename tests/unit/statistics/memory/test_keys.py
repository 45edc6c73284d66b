from __future__ import annotations

import pytest

from service.statistics.memory.keys import MAX_FORM_CHARS, SEPARATOR, read_keys


def read_templates(*tokens: str) -> list[list[str]]:
    return [template.split(SEPARATOR) for template in read_keys(tokens).templates]


def test_a_template_has_the_shapes_of_the_word_and_two_neighbours_on_each_side() -> None:
    assert read_templates("Japan", "beat", "CHINA", "2-1", ".") == [
        ["<s>", "<s>", "T", "beat", "U"],
        ["<s>", "T", "beat", "U", "D"],
        ["T", "beat", "U", "D", "."],
        ["beat", "U", "D", ".", "</s>"],
        ["U", "D", ".", "</s>", "</s>"],
    ]


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("U.S.", "U"),
        ("A", "U"),
        ("O'Brien", "T"),
        ("1996-12-06", "D"),
        ("iPhone", "iPhone"),
        ("-3", "-3"),
        ("東京", "東京"),
    ],
)
def test_shapes(word: str, shape: str) -> None:
    assert read_templates(word)[0][2] == shape


@pytest.mark.parametrize("word", ["Japan", "JAPAN", "iPhone", "3rd", "-3", "Ǆukela", "ǅukela", "٣"])
def test_a_word_with_a_capital_or_a_digit_has_a_form(word: str) -> None:
    keys = read_keys(["the", word])
    assert keys.forms == [word]
    assert keys.with_form == [1]


@pytest.mark.parametrize("word", ["japan", ".", "東京", "", "ß"])
def test_any_other_word_has_none(word: str) -> None:
    assert read_keys([word]).forms == []


def test_a_long_word_has_no_form_and_a_short_shape() -> None:
    assert read_keys(["A" * MAX_FORM_CHARS]).forms == ["A" * MAX_FORM_CHARS]
    assert read_keys(["A" * (MAX_FORM_CHARS + 1)]).forms == []
    assert read_templates("a" * 10_000)[0][2] == "a" * 16


def test_unscored_words_are_neighbours_only() -> None:
    keys = read_keys(["The", "Hague", "in", "Holland"], [1, 3])
    assert keys.forms == ["Hague", "Holland"]
    assert keys.with_form == [0, 1]
    assert [template.split(SEPARATOR)[2] for template in keys.templates] == ["T", "T"]
    assert keys.templates[0].split(SEPARATOR) == ["<s>", "T", "T", "in", "T"]
