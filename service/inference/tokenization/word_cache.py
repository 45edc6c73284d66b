"""A cache of the subwords of single words: a few thousand words make up most of any text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.inference.tokenization.word_shape import classify_casing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

MAX_CACHED_WORDS = 50_000
MAX_CACHED_WORD_LENGTH = 40  # characters: longer words seldom repeat, and have no limit


class WordSubwords(NamedTuple):
    """A word's subwords, the number of characters of each, and the word's casing class."""

    ids: tuple[int, ...]
    characters: tuple[int, ...]
    casing: int


class SubwordCache:
    """Subwords by word. A tokenizer splits a word the same way alone and in a list, so each is tokenized once.

    Safe to use from several threads: entries are never removed from a dictionary, a full one is replaced.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cache: dict[str, WordSubwords] = {}

    def tokenize(self, words: Sequence[str]) -> list[WordSubwords]:
        cache = self._cache
        missing = {word for word in words if word not in cache}
        if not missing:
            return [cache[word] for word in words]
        new = self._tokenize_uncached(list(missing))
        tokenized = [new.get(word) or cache[word] for word in words]
        cacheable = {word: subwords for word, subwords in new.items() if len(word) <= MAX_CACHED_WORD_LENGTH}
        if len(cache) + len(cacheable) > MAX_CACHED_WORDS:
            cache = self._cache = {}
        cache.update(cacheable)
        return tokenized

    def _tokenize_uncached(self, words: list[str]) -> dict[str, WordSubwords]:
        encodings = self._tokenizer.encode_batch(
            [[word] for word in words], is_pretokenized=True, add_special_tokens=False
        )
        # A subword that is only the space before its word has no character, but still counts as one.
        return {
            word: WordSubwords(
                tuple(encoding.ids),
                tuple([max(end - start, 1) for start, end in encoding.offsets]),
                classify_casing(word),
            )
            for word, encoding in zip(words, encodings, strict=True)
        }
