"""Looks at the structure of large JSON before it is parsed.

A parser holds the interpreter while it builds objects: 16 MB of small values take seconds and hundreds of megabytes. This
scan counts names and values, and finds the elements of a list, without building anything. It works on blocks with numpy,
which lets other threads run. It does not validate: whatever it returns must still be parsed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.api.http.problems import TooLargeError
from service.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

BLOCK_BYTES: Final = 1 << 18
MAX_LIST_LEVEL: Final = 2  # `[…]` is at level 1, the list of `{"sentences": […]}` at level 2
MAX_OUTER: Final = 1_000_000  # brackets, commas and colons of the outer levels: 17 MB
_OPEN, _CLOSE, _COMMA, _COLON = 1, 2, 3, 4
_QUOTE, _BACKSLASH = ord('"'), ord("\\")


def _build_kinds() -> NDArray[np.uint8]:
    kinds = np.zeros(256, np.uint8)
    for characters, kind in (("[{", _OPEN), ("]}", _CLOSE), (",", _COMMA), (":", _COLON)):
        for character in characters:
            kinds[ord(character)] = kind
    return kinds


_KINDS: Final = _build_kinds()
_DEPTH_CHANGES: Final = np.array([0, 1, -1, 0, 0], np.int64)  # by kind


@dataclass(frozen=True, slots=True)
class JsonShape:
    """How many names, and how many values and names together, a text has."""

    names: int
    values: int


@dataclass(frozen=True, slots=True)
class OuterStructure:
    """The brackets, commas and colons of the outer levels, in order: where they are, what they are, and their level.

    A bracket has the level outside of it; a comma or colon that of the list or object it divides.
    """

    positions: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    levels: NDArray[np.int64]

    def find(self, kind: int, level: int, start: int, end: int) -> NDArray[np.int64]:
        """Positions of this kind at this level within a range of positions."""
        chosen = (self.kinds == kind) & (self.levels == level) & (self.positions >= start) & (self.positions < end)
        found: NDArray[np.int64] = self.positions[chosen]
        return found


def measure_shape(raw: bytes | memoryview) -> JsonShape:
    names = values = 1
    for _, kinds in _iterate_structure(raw):
        counts = np.bincount(kinds, minlength=5)
        names += int(counts[_COLON])
        values += int(counts[_COMMA] + counts[_OPEN])
    return JsonShape(names - 1, values)


def find_outer_structure(raw: bytes) -> OuterStructure:
    """Raises `DecodeError` if brackets or quotes are not closed, `TooLargeError` if there is too much to remember."""
    positions, all_kinds, all_levels = [], [], []
    depth = found = 0
    for where, kinds in _iterate_structure(raw):
        depths = depth + np.cumsum(_DEPTH_CHANGES[kinds])
        levels = depths - (kinds == _OPEN)
        outer = levels <= MAX_LIST_LEVEL
        found += int(np.count_nonzero(outer))
        if found > MAX_OUTER:
            raise TooLargeError(
                f"the body has more than {MAX_OUTER:,} values in its list and fields: send less at once"
            )
        positions.append(where[outer])
        all_kinds.append(kinds[outer])
        all_levels.append(levels[outer])
        if len(depths):
            if int(depths.min()) < 0:
                raise DecodeError("the body is not JSON: a bracket is closed that was not opened")
            depth = int(depths[-1])
    if depth:
        raise DecodeError("the body is not JSON: it ends before a bracket or a quote is closed")
    return OuterStructure(np.concatenate(positions), np.concatenate(all_kinds), np.concatenate(all_levels))


def count_elements(raw: bytes, structure: OuterStructure, start: int, end: int, *, level: int) -> int:
    """Of the list `raw[start:end]`, whose commas have this level."""
    return len(structure.find(_COMMA, level, start, end)) + 1 if raw[start + 1 : end - 1].strip() else 0


def split_list(raw: bytes, structure: OuterStructure, start: int, end: int, *, level: int) -> list[tuple[int, int]]:
    """The ranges of the elements of the list `raw[start:end]`, whose commas have this level."""
    if not count_elements(raw, structure, start, end, level=level):
        return []
    commas = structure.find(_COMMA, level, start, end).tolist()
    return list(zip([start + 1, *(comma + 1 for comma in commas)], [*commas, end - 1], strict=True))


def find_members(
    raw: bytes, structure: OuterStructure, max_members: int
) -> list[tuple[tuple[int, int], tuple[int, int]]] | None:
    """The ranges of name and value of each member of the object that `raw` is; None if there are more than `max_members`."""
    colons = structure.find(_COLON, 1, 0, len(raw)).tolist()
    commas = structure.find(_COMMA, 1, 0, len(raw)).tolist()
    if len(colons) > max_members or len(commas) > max_members:
        return None
    opening, closing = int(structure.positions[0]), int(structure.positions[-1])
    members = []
    for start, end in zip([opening, *commas], [*commas, closing], strict=True):
        colon = next((each for each in colons if start < each < end), None)
        if colon is None:
            continue  # an empty object, or no JSON: the parser says so
        value_start = colon + 1 + _count_leading_space(raw, colon + 1, end)
        members.append(((start + 1, colon), (value_start, len(raw[value_start:end].rstrip()) + value_start)))
    return members


def _count_leading_space(raw: bytes, start: int, end: int) -> int:
    part = raw[start:end]
    return len(part) - len(part.lstrip())


def _iterate_structure(raw: bytes | memoryview) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Per block, positions and kinds of the brackets, commas and colons that are not in strings."""
    content = np.frombuffer(raw, np.uint8)
    in_string, escaped = 0, False
    for start in range(0, len(content), BLOCK_BYTES):
        block = content[start : start + BLOCK_BYTES]
        quotes = block == _QUOTE
        escaped = _remove_escaped(block, quotes, starts_escaped=escaped)
        inside = np.bitwise_xor.accumulate(quotes.view(np.uint8)) ^ np.uint8(in_string)
        in_string = int(inside[-1])
        kinds = _KINDS[block]
        kinds[inside.view(np.bool_)] = 0
        where = np.flatnonzero(kinds)
        yield where + start, kinds[where]
    if in_string:
        raise DecodeError("the body is not JSON: it ends before a bracket or a quote is closed")


def _remove_escaped(block: NDArray[np.uint8], quotes: NDArray[np.bool_], *, starts_escaped: bool) -> bool:
    """Clears quotes after an odd number of backslashes. Returns whether the next block starts with an escaped character."""
    backslashes = block == _BACKSLASH
    if starts_escaped:
        quotes[0] = backslashes[0] = False
    where = np.flatnonzero(backslashes)
    if not len(where):
        return False
    is_start = np.diff(where, prepend=-2) != 1
    starts = where[is_start]
    run_ends = np.append(where[np.flatnonzero(is_start)[1:] - 1], where[-1])
    after_odd = run_ends[(run_ends - starts) % 2 == 0] + 1
    if len(after_odd) and after_odd[-1] == len(block):
        quotes[after_odd[:-1]] = False
        return True
    quotes[after_odd] = False
    return False
