"""Tests on the CoNLL-2003 data, whose text can't be part of this repo, run only where its folder is found.

No example of a property test has a deadline: a machine may be slow.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Iterator

CONLL_VARIABLE = "LABELWATCH_CONLL"
DEFAULT_CONLL_FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "conll2003"


def find_conll_folder() -> Path | None:
    """The folder that LABELWATCH_CONLL names, else the one beside the repo, else none."""
    named = os.environ.get(CONLL_VARIABLE)
    if not named:
        return DEFAULT_CONLL_FOLDER if DEFAULT_CONLL_FOLDER.is_dir() else None
    if not Path(named).is_dir():
        raise pytest.UsageError(f"{CONLL_VARIABLE} names {named}, which is not a folder")
    return Path(named)


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("no-deadline", settings.get_profile(settings.get_current_profile_name()), deadline=None)
    settings.load_profile("no-deadline")
    config.addinivalue_line("markers", "conll: needs the CoNLL-2003 folder; not collected without it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if find_conll_folder() is not None:
        return
    left_out = [item for item in items if item.get_closest_marker("conll")]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker("conll")]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def keep_umask() -> Iterator[None]:
    """A service that a test runs in this process makes new files private: the next test must not inherit that."""
    mask = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(mask)


@pytest.fixture(autouse=True)
def keep_log_level() -> Iterator[None]:
    """A command that a test runs in this process sets the level: the next test must see its own messages."""
    logger = logging.getLogger("service")
    level = logger.level
    try:
        yield
    finally:
        logger.setLevel(level)


@pytest.fixture(scope="session")
def conll() -> Path:
    """The CoNLL-2003 folder; for tests marked `conll`."""
    folder = find_conll_folder()
    assert folder is not None, "mark the test with pytest.mark.conll"
    return folder
