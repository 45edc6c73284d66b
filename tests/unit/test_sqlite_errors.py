from __future__ import annotations

import sqlite3

import pytest

from service.errors import StateError
from service.sqlite_errors import translate_sqlite_errors


def test_an_error_of_sqlite_becomes_the_named_one_and_others_pass() -> None:
    refused = pytest.raises(StateError, match="the file failed: disk full")
    with refused as raised, translate_sqlite_errors(StateError, "the file failed"):
        raise sqlite3.OperationalError("disk full")
    assert isinstance(raised.value.__cause__, sqlite3.OperationalError)
    with pytest.raises(KeyError), translate_sqlite_errors(StateError, "the file failed"):
        raise KeyError("other")
