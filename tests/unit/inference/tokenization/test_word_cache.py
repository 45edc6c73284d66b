from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.inference.tokenization import word_cache as words_module
from service.inference.tokenization.word_cache import MAX_CACHED_WORD_LENGTH, SubwordCache
from tests.support.tiny_models import TOKENIZER_KINDS, TokenizerKind, make_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def plain_tokenizer(kind: TokenizerKind) -> Tokenizer:
    tokenizer = make_tokenizer(kind)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if kind == "bytelevel":
        tokenizer.pre_tokenizer.add_prefix_space = True
    return tokenizer


@pytest.mark.parametrize("kind", TOKENIZER_KINDS)
@settings(deadline=None, max_examples=60)
@given(sentences=st.lists(st.lists(WORDS, min_size=1, max_size=8), min_size=1, max_size=4))
def test_words_one_by_one_give_what_the_sentence_gives(kind: TokenizerKind, sentences: list[list[str]]) -> None:
    tokenizer = plain_tokenizer(kind)
    remembered = SubwordCache(tokenizer)
    for sentence in (*sentences, *sentences):  # the second time from memory
        whole = tokenizer.encode(sentence, is_pretokenized=True, add_special_tokens=False)
        tokenized = remembered.tokenize(sentence)
        assert [i for each in tokenized for i in each.ids] == whole.ids
        assert [n for n, each in enumerate(tokenized) for _ in each.ids] == whole.word_ids
        assert [c for each in tokenized for c in each.characters] == [max(b - a, 1) for a, b in whole.offsets]


def test_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "MAX_CACHED_WORDS", 10)
    remembered = SubwordCache(plain_tokenizer("wordpiece"))
    for number in range(100):
        remembered.tokenize([f"w{number}", "the", "x" * (MAX_CACHED_WORD_LENGTH + 1)])
        assert len(remembered._cache) <= 10
        assert all(len(word) <= MAX_CACHED_WORD_LENGTH for word in remembered._cache)
    assert [each.ids for each in remembered.tokenize(["the", "the"])] == [remembered.tokenize(["the"])[0].ids] * 2
