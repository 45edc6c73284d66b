"""The scripts in models/, imported as they find each other when they are run."""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPTS = Path(__file__).parents[2] / "models"


@contextmanager
def import_scripts(*names: str) -> Iterator[dict[str, Any]]:
    """The modules by name. Afterwards none of the scripts is imported any more."""
    before = set(sys.modules)
    sys.path.insert(0, str(SCRIPTS))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(SCRIPTS))
        for name in {path.stem for path in SCRIPTS.glob("*.py")} - before:
            sys.modules.pop(name, None)
