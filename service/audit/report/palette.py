"""The look of each entity type in the report: the same as in the review console (labels/colours.js)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

N_COLOURS: Final = 8
N_LINE_STYLES: Final = 4
FIXED_COLOUR_TYPES: Final = ("LOC", "PER", "ORG", "MISC")
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_UINT32: Final = 0xFFFFFFFF


class Palette:
    """A colour and a line style per type of one label set. The name decides; of two that ask for one look, one gets the next.

    The type's name is always shown too.
    """

    def __init__(self, types: Iterable[str]) -> None:
        self._looks: dict[str, int] = {}
        ordered = sorted(set(types), key=lambda name: (not _has_fixed_colour(name), name.encode("utf-16-be")))
        for name in ordered:
            self._looks[name] = _find_free_look(_hash_colour(name), self._looks.values())

    def get_css_classes(self, name: str) -> str:
        line, colour = divmod(self._looks.get(name, _hash_colour(name)), N_COLOURS)
        return f"t{colour} l{line}" if line else f"t{colour}"


def _has_fixed_colour(name: str) -> bool:
    return name.upper() in FIXED_COLOUR_TYPES


def _hash_colour(name: str) -> int:
    """The colour that a name asks for: FNV-1a over its UTF-16 units, as JavaScript sees them."""
    if _has_fixed_colour(name):
        return FIXED_COLOUR_TYPES.index(name.upper())
    code = name.encode("utf-16-le")
    value = _FNV_OFFSET
    for start in range(0, len(code), 2):
        value = ((value ^ int.from_bytes(code[start : start + 2], "little")) * _FNV_PRIME) & _UINT32
    return (value ^ (value >> 15)) % N_COLOURS


def _find_free_look(colour: int, taken: Collection[int]) -> int:
    """The first free look from this colour on: all colours with one line style, then with the next."""
    for line in range(N_LINE_STYLES):
        for step in range(N_COLOURS):
            look = line * N_COLOURS + (colour + step) % N_COLOURS
            if look not in taken:
                return look
    return colour
