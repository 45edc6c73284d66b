"""Trims the vocabulary of a multilingual encoder: fewer pieces, smaller file, the same states for what is left.

A word whose pieces were removed is split into shorter ones, down to single characters.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

ALL_SCRIPTS = "all"
CONTINUATION = "##"
SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def choose_pieces(vocabulary: Sequence[str], scripts: Collection[str], max_pieces: int) -> list[int]:
    """The rows to keep, in order: special pieces, the characters of the scripts, and the most frequent longer pieces.

    `vocabulary` has its longer pieces in the order of their frequency. `scripts` are the first words of Unicode's
    character names in lower case (`latin`, `cyrillic`, `cjk`), or `all`.
    """
    usable = [
        row
        for row, piece in enumerate(vocabulary)
        if piece in SPECIAL_PIECES or (not _is_reserved(piece) and _is_written_in(piece, scripts))
    ]
    short = [row for row in usable if vocabulary[row] in SPECIAL_PIECES or _count_characters(vocabulary[row]) == 1]
    if len(short) > max_pieces:
        raise ValueError(f"the scripts have {len(short)} characters, more than {max_pieces} pieces: allow more pieces")
    kept = set(short)
    longer = [row for row in usable if row not in kept]
    return sorted([*short, *longer[: max_pieces - len(short)]])


def _is_reserved(piece: str) -> bool:
    return len(piece) > 2 and piece[0] + piece[-1] in ("[]", "<>")


def _is_written_in(piece: str, scripts: Collection[str]) -> bool:
    """Digits, punctuation and marks belong to every script."""
    return ALL_SCRIPTS in scripts or all(
        not character.isalpha() or _name_script(character) in scripts for character in piece.removeprefix(CONTINUATION)
    )


@cache
def _name_script(character: str) -> str:
    return unicodedata.name(character, "unknown").split(" ")[0].lower()


def _count_characters(piece: str) -> int:
    return len(piece.removeprefix(CONTINUATION))
