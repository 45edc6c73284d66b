"""Parses lists in a table's cell: JSON arrays, lists as Python, pandas and numpy print them, or words with spaces."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from service.errors import DecodeError

_STRING_LITERAL = r"""[uU]?'[^'\\]*(?:\\.[^'\\]*)*'|[uU]?"[^"\\]*(?:\\.[^"\\]*)*\""""
_ITEM_LITERAL = rf"{_STRING_LITERAL}|-?\d+(?![\w.])"
# An item of a printed list, also as numpy 2 prints its own types: np.str_('EU'), np.int64(0).
_LIST_ITEM = re.compile(
    rf"\s*(?:np\.\w+\((?P<wrapped>{_ITEM_LITERAL})\)|(?P<bare>{_ITEM_LITERAL})|(?P<ellipsis>\.\.\.))\s*,?\s*", re.DOTALL
)


def parse_list_cell(cell: str, *, numbers: bool) -> list[Any]:
    """A cell as a list. Text that only looks like a list ("[ Reuters ]") is split at spaces."""
    text = cell.strip()
    if text.startswith("[") and text.endswith("]"):
        for parse in (json.loads, _parse_literals):
            try:
                values = parse(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(values, list) and all(_is_item(value, numbers=numbers) for value in values):
                return values
        # No label starts with a bracket, and few sentences start with a bracket and a quote.
        if numbers or text.startswith(("['", '["')):
            raise DecodeError(
                f"the list {text[:40]!r} can't be read: write a JSON array, or separate its items by spaces"
            )
    return text.split()


def _parse_literals(text: str) -> list[Any]:
    """The items of a list as Python, pandas and numpy print them. numpy prints no commas.

    `ast.literal_eval` would read `['a' 'b']` as the single string `ab`.
    """
    values: list[Any] = []
    position, end = 1, len(text) - 1
    while position < end:
        item = _LIST_ITEM.match(text, position, end)
        if item is None:
            raise ValueError(text)
        if item["ellipsis"] and any(isinstance(value, str) for value in values):
            raise DecodeError(
                "the list was cut short with ... when it was printed: write the file again, with JSON arrays"
            )
        values.append(ast.literal_eval(item["wrapped"] or item["bare"] or ""))
        position = item.end()
    return values


def _is_item(value: object, *, numbers: bool) -> bool:
    return isinstance(value, str) or (numbers and isinstance(value, int) and not isinstance(value, bool))
