from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.inference.tokenization.word_shape import (
    classify_casing,
    has_lone_surrogate,
    is_plainly_visible,
    is_visible,
)

calm = settings(deadline=None, max_examples=60)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("", 0), ("-", 0), ("...", 0), ("[MASK]", 0), ("Ⅷ", 0),
        ("the", 1), ("don't", 1), ("straße", 1), ("x", 1), ("'s", 1),
        ("Paris", 2), ("O'neill", 2), ("Jean-paul", 2), ("Ümit", 2), ("Ab.", 2),
        ("JAPAN", 3), ("U.S.", 3), ("AT&T", 3), ("ÄÖ", 3), ("[MASKS]", 3),
        ("I", 4), ("A.", 4), ("(B)", 4),
        ("McDonald", 5), ("iPhone", 5), ("USAir", 5), ("日本", 5), ("Jean-Paul", 5), ("aあ", 5), ("ǅ", 5), ("PhDs", 5),
        ("1996", 6), ("6-4", 6), ("$1.50", 6), ("²", 6),
        ("1990s", 7), ("B2B", 7), ("4th", 7), ("F-16", 7), ("x²", 7),
        ("a" * 100, 1), ("A" * 100, 3),
    ],
)  # fmt: skip
def test_casing_classes_are_those_the_default_model_learned(word: str, expected: int) -> None:
    assert classify_casing(word) == expected


@calm
@given(st.text(max_size=80))
def test_every_word_has_one_of_eight_casing_classes(word: str) -> None:
    assert classify_casing(word) in range(8)
    assert classify_casing(word) == classify_casing(word + "-.,")


@pytest.mark.parametrize(
    "word", ["", " ", "\u200b", "\u00ad", "\ufffd", "\x01", "\n", "\u00a0", "\u2028", "\ufffd\u200b", chr(0xD800)]
)
def test_words_without_a_visible_character(word: str) -> None:
    assert not is_visible(word)
    assert not is_plainly_visible(["a", word, "b"])


@pytest.mark.parametrize("word", ["a", "\u00e9", "日", "x\u00ad", "🙂", "\u0300", "\ue000", "a b"])
def test_words_with_a_visible_character(word: str) -> None:
    assert is_visible(word)


@calm
@given(st.lists(st.text(max_size=4), max_size=6))
def test_the_quick_look_never_lets_an_invisible_word_through(words: list[str]) -> None:
    if is_plainly_visible(words):
        assert all(is_visible(word) and not has_lone_surrogate(word) for word in words)


def test_half_of_a_surrogate_pair_is_found() -> None:
    assert has_lone_surrogate("a\udc00")
    assert not has_lone_surrogate("🙂\ue000")
