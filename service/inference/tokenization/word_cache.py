"""The subwords of single words, remembered: a few thousand words make up most of any text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.inference.tokenization.word_joining import classify_casing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

MAX_CACHED_WORDS = 50_000
MAX_CACHED_WORD_LENGTH = 40  # characters: longer ones hardly come twice, and could be of any size


class WordSubwords(NamedTuple):
    """A word's subwords, the number of its characters that each stands for, and how the word is capitalised."""

    ids: tuple[int, ...]
    characters: tuple[int, ...]
    casing: int


class SubwordCache:
    """Subwords by word. Tokenising word by word gives what tokenising a list of words gives, so each is done once.

    Safe to use from several threads: what one of them has found is never taken out of the dictionary it found it in.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._cache: dict[str, WordSubwords] = {}

    def tokenize(self, words: Sequence[str]) -> list[WordSubwords]:
        kept = self._cache
        unknown = {word for word in words if word not in kept}
        if not unknown:
            return [kept[word] for word in words]
        made = self._tokenize_uncached(list(unknown))
        found = [made.get(word) or kept[word] for word in words]
        short = {word: pieces for word, pieces in made.items() if len(word) <= MAX_CACHED_WORD_LENGTH}
        if len(kept) + len(short) > MAX_CACHED_WORDS:
            kept = self._cache = {}
        kept.update(short)
        return found

    def _tokenize_uncached(self, words: list[str]) -> dict[str, WordSubwords]:
        encodings = self._tokenizer.encode_batch(
            [[word] for word in words], is_pretokenized=True, add_special_tokens=False
        )
        # A subword that is only the space before its word has no character, and still a say.
        return {
            word: WordSubwords(
                tuple(each.ids), tuple([max(end - start, 1) for start, end in each.offsets]), classify_casing(word)
            )
            for word, each in zip(words, encodings, strict=True)
        }
