from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.inference.tokenization.word_joining import capitalise_word, join_words

calm = settings(deadline=None, max_examples=60)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["Minnesota", "Timberwolves", "(", "MIN", ")"], "Minnesota Timberwolves (Min)"),
        (["SOCCER", "-", "JAPAN", "GET", "LUCKY", "WIN", ",", "CHINA", "."], "Soccer - Japan Get Lucky Win, China."),
        (["either", ",", '"', "said", "Sumitomo", "'s", "Note", "."], "either,\" said Sumitomo's Note."),
        (["I", "do", "n't", "know", "(", "[", "yet", "]", ")", "!"], "I don't know ([yet])!"),
        ([",", "he"], ", he"),
        (["a", "", "b"], "a b"),
        (["50", "%", "of", "$", "5"], "50% of $ 5"),
        (["'em", "'tis"], "'em 'tis"),
        ([], ""),
    ],
)
def test_words_are_joined_as_people_write(words: list[str], text: str) -> None:
    assert join_words(words, capitalise_caps=True).text == text


@calm
@given(
    st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["(", ")", ",", ".", "'s", "[", "-", '"'])), max_size=20)
)
def test_offsets_point_at_the_words(words: list[str]) -> None:
    joined = join_words(words)
    assert [joined.text[a:b] for a, b in zip(joined.starts, joined.ends, strict=True)] == words
    positions = [p for span in zip(joined.starts, joined.ends, strict=True) for p in span]
    assert positions == sorted(positions)
    assert joined.text.replace(" ", "") == "".join(words).replace(" ", "")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("JAPAN", "Japan"),
        ("U.S.", "U.s."),
        ("I", "I"),
        ("1990S", "1990S"),
        ("McD", "McD"),
        ("Paris", "Paris"),
        ("", ""),
    ],
)
def test_only_words_in_capitals_that_start_with_a_letter_change(word: str, expected: str) -> None:
    assert capitalise_word(word) == expected


def test_offsets_hold_where_lower_case_is_longer() -> None:
    joined = join_words(["AİB", "x"], capitalise_caps=True)
    assert joined.text[joined.starts[1] : joined.ends[1]] == "x"
    assert joined.ends[0] == len("AİB".lower())
