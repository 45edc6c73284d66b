from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.formats.text.word_splitter import SPLITTER, CharacterRange, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hill beat China in Al-Ain.", "Hill|beat|China|in|Al-Ain|."),
        ("U.S.-based J. P. Morgan & Co. won't pay $1,000.5 at 10:30 a.m.",
         "U.S.-based|J.|P.|Morgan|&|Co|.|wo|n't|pay|$|1,000.5|at|10:30|a.m."),
        ("O'Brien's AT&T–deal (1996-08-22)...", "O'Brien|'s|AT&T|–|deal|(|1996-08-22|)|..."),
        ('"No," she said.He left -- now', '"|No|,|"|she|said|.|He|left|--|now'),
        ("Zoë Müller’s I’ve don’t", "Zoë|Müller|’s|I|’ve|do|n’t"),
        ("ISLAMABAD'S isn't n't rock'n'roll", "ISLAMABAD|'S|is|n't|n't|rock'n'roll"),
        ("U.S.A and U.S. Plan B. 5.Next", "U.S.A|and|U.S.|Plan|B|.|5|.|Next"),
        ("a@b.com #tag @you 6-4 1/2 3rd", "a@b.com|#|tag|@|you|6-4|1/2|3rd"),
        ("players' 'quoted'", "players|'|'|quoted|'"),
        ("東京は हिन्दी ไทย", "東|京|は|हिन्दी|ไ|ท|ย"),
        ("e\u0301cole \u0301x ☺️!", "e\u0301cole|\u0301|x|☺️|!"),
        ("a\u00a0b\u200bc\x00d\n\te", "a|b|c|d|e"),
        ("", ""),
        (" \t\n", ""),
    ],
)  # fmt: skip
def test_words_of_version_1_stay_as_they_are(text: str, words: str) -> None:
    """Offsets in old messages are found by splitting again: a change needs a new name."""
    assert SPLITTER == "labelwatch-words-1"
    assert "|".join(word.extract(text) for word in split_words(text)) == words


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_nothing_but_white_space_is_left_out(text: str) -> None:
    words = split_words(text)
    assert all(word.start < word.end for word in words)
    assert all(one.end <= other.start for one, other in pairwise(words))
    covered = {place for word in words for place in range(*word)}
    left_out = "".join(char for place, char in enumerate(text) if place not in covered)
    assert not any(char.isalnum() or (char.isprintable() and not char.isspace()) for char in left_out)
    for word in words:
        assert not any(char.isspace() for char in word.extract(text))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(alphabet="abcXYZéßЖ", min_size=1, max_size=8), min_size=1, max_size=8))
def test_letters_between_spaces_are_words(words: list[str]) -> None:
    text = " ".join(words)
    assert [word.extract(text) for word in split_words(text)] == words


@pytest.mark.parametrize("piece", ["a.", "a'", "n't", "A. ", "一", "\u0301", "-", "1,"])
def test_long_texts_are_no_trouble(piece: str) -> None:
    text = piece * 20_000
    words = split_words(text)
    assert words[0].start == 0
    assert words[-1].end == len(text.rstrip())


def test_a_word_knows_its_text() -> None:
    assert CharacterRange(2, 5).extract("a bcd e") == "bcd"
