"""SQLite's errors become the service's own."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.errors import LabelwatchError


@contextmanager
def translate_sqlite_errors(error_class: type[LabelwatchError], subject: str) -> Iterator[None]:
    """Raises `error_class` with the text "`subject`: SQLite's message" for any error of SQLite in the block."""
    try:
        yield
    except sqlite3.Error as error:
        raise error_class(f"{subject}: {error}") from error
