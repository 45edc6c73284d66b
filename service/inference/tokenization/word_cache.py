"""The subwords of single words, remembered: a few thousand words make up most of any text."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.inference.tokenization.word_joining import casing_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokenizers import Tokenizer

MOST_WORDS = 50_000
LONGEST_KEPT = 40  # characters: longer ones hardly come twice, and could be of any size


class Pieces(NamedTuple):
    """A word's subwords, the number of its characters that each stands for, and how the word is capitalised."""

    ids: tuple[int, ...]
    characters: tuple[int, ...]
    casing: int


class WordPieces:
    """Subwords by word. Tokenising word by word gives what tokenising a list of words gives, so each is done once.

    Safe to use from several threads: what one of them has found is never taken out of the dictionary it found it in.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._kept: dict[str, Pieces] = {}

    def of(self, words: Sequence[str]) -> list[Pieces]:
        kept = self._kept
        unknown = {word for word in words if word not in kept}
        if not unknown:
            return [kept[word] for word in words]
        made = self._made(list(unknown))
        found = [made.get(word) or kept[word] for word in words]
        short = {word: pieces for word, pieces in made.items() if len(word) <= LONGEST_KEPT}
        if len(kept) + len(short) > MOST_WORDS:
            kept = self._kept = {}
        kept.update(short)
        return found

    def _made(self, words: list[str]) -> dict[str, Pieces]:
        encodings = self._tokenizer.encode_batch(
            [[word] for word in words], is_pretokenized=True, add_special_tokens=False
        )
        # A subword that is only the space before its word has no character, and still a say.
        return {
            word: Pieces(
                tuple(each.ids), tuple([max(end - start, 1) for start, end in each.offsets]), casing_class(word)
            )
            for word, each in zip(words, encodings, strict=True)
        }
