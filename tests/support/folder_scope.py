"""Fixtures that live as long as tests of one folder run, and not until the session ends.

pytest has no such scope for folders without `__init__.py`. What is left running would take the cores from the tests of
other folders, and a browser's event loop would keep them from running one of their own.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class FolderScope(ExitStack):
    """A conftest enters contexts into it from session fixtures, and calls `leave` after each test."""

    def __init__(self, conftest: str) -> None:
        super().__init__()
        self._folder = Path(conftest).parent

    def close_if_last(self, next_item: pytest.Item | None) -> None:
        if next_item is None or self._folder not in next_item.path.parents:
            self.close()
