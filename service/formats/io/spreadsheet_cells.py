"""Cells of CSV files that a spreadsheet would run as a formula.

A text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an apostrophe before it, as spreadsheets mark
text. A text that begins with apostrophes and then one of these gets one more, so that `restore_cell` is exact.

>>> neutralize_cell("=1+1"), restore_cell(neutralize_cell("'=1+1"))
("'=1+1", "'=1+1")
"""

from __future__ import annotations

import re
from typing import Final

_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def neutralize_cell(text: str) -> str:
    return f"'{text}" if _FORMULA.match(text) else text


def restore_cell(text: str) -> str:
    """The text of a cell that `neutralize_cell` has written."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
