"""Tests on what a real Label Studio sent, which is not part of this repo, run only where its folder is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MARK = "platform_fixtures"
VARIABLE = "LABELWATCH_PLATFORM_FIXTURES"
DEFAULT_FOLDER = Path(__file__).resolve().parents[4] / "shared" / "fixtures"


def _find_folder() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_dir():
        raise pytest.UsageError(f"{VARIABLE} names {named}, which is not a folder")
    return Path(named) if named else DEFAULT_FOLDER if DEFAULT_FOLDER.is_dir() else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARK}: needs the folder of platform fixtures; not collected without it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker(MARK)] if _find_folder() is None else []
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def platform_fixtures() -> Path:
    folder = _find_folder()
    assert folder is not None, f"mark the test with pytest.mark.{MARK}"
    return folder
