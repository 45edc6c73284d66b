"""Joins words to text by the paper's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOSING = frozenset(".,;:!?)]}%'\"’”…")
_OPENING = frozenset("([{“‘")
_CLITICS = frozenset({"s", "t", "d", "m", "re", "ve", "ll"})


class JoinedText(NamedTuple):
    """A sentence as text, with the characters [start, end) of each word. An empty word has start = end."""

    text: str
    starts: list[int]
    ends: list[int]


def _is_attached_to_previous(word: str) -> bool:
    """Closing punctuation and English clitics: no space separates them from the word before."""
    if all(character in _CLOSING for character in word):
        return True
    lowered = word.lower()
    return lowered == "n't" or (lowered[0] in "'’" and lowered[1:] in _CLITICS)


def capitalise_word(word: str) -> str:
    """JAPAN becomes Japan: many vocabularies split words in capitals into many subwords."""
    return word[0] + word[1:].lower() if len(word) > 1 and word[0].isalpha() and word.isupper() else word


def join_words(words: Sequence[str], *, capitalise_caps: bool = False) -> JoinedText:
    """Joins words with spaces, but with none before closing punctuation and none after an opening bracket.

    Quotation marks count as closing punctuation, as in the paper's examples. Dashes keep both spaces.
    """
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    no_space = True
    for word in words:
        if not word:
            starts.append(position)
            ends.append(position)
            continue
        text = capitalise_word(word) if capitalise_caps else word
        if not no_space and not _is_attached_to_previous(text):
            pieces.append(" ")
            position += 1
        pieces.append(text)
        starts.append(position)
        position += len(text)
        ends.append(position)
        no_space = all(character in _OPENING for character in text)
    return JoinedText("".join(pieces), starts, ends)
