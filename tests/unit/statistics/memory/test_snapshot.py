from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings

from service.errors import NewerStateError, StateError
from service.statistics.memory import memory as memory_module
from service.statistics.memory.history import FormHistory
from service.statistics.memory.keys import read_keys
from service.statistics.memory.memory import Memory, recall
from service.statistics.memory.snapshot import read_history, read_memory, write_history, write_recent
from service.statistics.running import RunningStats
from tests.support.memory_streams import MemorySentence, streams, teach


@pytest.fixture
def small_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations of 4 and 3 sentences, so that a short stream has many."""
    monkeypatch.setattr(memory_module, "FORM_GENERATION", 4)
    monkeypatch.setattr(memory_module, "TEMPLATE_GENERATION", 3)


def restore(memory: Memory) -> Memory:
    recent = json.loads(json.dumps(write_recent(memory)))
    history = None if memory.history is None else read_history(json.loads(json.dumps(write_history(memory.history))))
    return read_memory(recent, history)


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(streams, streams)
def test_a_restored_memory_is_the_same_and_goes_on_the_same(
    before: list[MemorySentence], after: list[MemorySentence]
) -> None:
    for has_history in (True, False):
        memory = teach(Memory.create(2, has_history=has_history, period=7), before)
        restored = restore(memory)
        assert restored == memory
        assert write_recent(restored) == write_recent(memory), "the same text"
        assert teach(restored, after) == teach(memory, after)


def make_memory() -> Memory:
    sentence = MemorySentence(["Ann", "saw", "Bo"], [1.0, 0.0, 0.75], [1, 0, 0])
    return teach(Memory.create(2, has_history=True), [sentence] * 310)


def test_a_release_before_memory_reads_empty_statistics() -> None:
    memory = make_memory()
    assert memory.history is not None
    for snapshot in (write_recent(memory), write_history(memory.history)):
        assert RunningStats.restore(json.loads(json.dumps(snapshot))) == RunningStats.empty(1)


def test_a_history_of_another_generation_is_left_out() -> None:
    memory = make_memory()
    assert memory.history is not None
    older = replace(memory.history, generations=memory.history.generations - 1)
    read = read_memory(write_recent(memory), older)
    assert read.history is not None
    assert len(read.history.table) == 0
    assert read.forms == memory.forms
    counts = recall([read], read_keys(["Ann"]))
    assert counts.recent[0, 0] == 110
    assert read_memory(write_recent(memory), None).history == read.history


def test_large_counts_survive() -> None:
    memory = make_memory()
    memory.forms.current.add(["Ann"], np.array([[1, 2**52, 3]], np.int64))
    assert restore(memory) == memory


def pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"n_types": 0}, "`n_types` should be a number of types"),
        ({"sentences": -1}, "`sentences` should be an integer"),
        ({"gate_sum": "1"}, "`gate_sum` should be an integer"),
        ({"gate_words": True}, "`gate_words` should be an integer"),
        ({"forms": []}, "`forms` should be an object with `keys` and `numbers`"),
        ({"forms": {"keys": 1, "numbers": ""}}, "`forms` should be packed text"),
        ({"forms": {"keys": "?", "numbers": ""}}, "`forms` can't be unpacked"),
        ({"forms": {"keys": pack(b"[")[:-4], "numbers": ""}}, "`forms` can't be unpacked|is cut off"),
        ({"forms": {"keys": pack(b"["), "numbers": ""}}, "`forms` has keys that are not JSON"),
        ({"forms": {"keys": pack(b"\xff"), "numbers": ""}}, "`forms` has keys that are not JSON"),
        ({"forms": {"keys": pack(b"[1]"), "numbers": ""}}, "`forms` should have a list of texts"),
        ({"forms": {"keys": pack(b'["a"]'), "numbers": pack(b"")}}, "should have 3 columns"),
        ({"forms": {"keys": pack(b'["a"]'), "numbers": pack(b"\x04\x04\x05")}}, "columns of 4 or 8 bytes"),
        ({"forms": {"keys": pack(b'["a"]'), "numbers": pack(b"\x04\x04\x04")}}, "3 bytes where 15 are needed"),
        (
            {"forms": {"keys": pack(b'["a","a"]'), "numbers": pack(b"\x04\x04\x04" + bytes(24))}},
            "2 rows of counts for 1 different keys",
        ),
        (
            {"forms": {"keys": pack(b'["a"]'), "numbers": pack(b"\x08\x04\x04" + b"\xff" * 16)}},
            "which can't be real",
        ),
        ({"forms": {"keys": pack(b'"' + b"a" * 5_000_000 + b'"'), "numbers": ""}}, "more than 4194304 bytes"),
        ({"n_types": 2**40}, "`n_types` should be a number of types, at most 32768"),
        ({"colour": 1}, "unknown fields colour"),
    ],
)
def test_a_broken_record_is_refused_with_a_sentence(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(StateError, match=problem):
        read_memory({**write_recent(make_memory()), **change}, None)


def test_a_record_of_a_later_release_is_refused_if_it_says_so() -> None:
    memory = make_memory()
    with pytest.raises(NewerStateError, match="needs a reader of version 3"):
        read_memory({**write_recent(memory), "version": 3, "min_reader": 3}, None)
    assert read_memory({**write_recent(memory), "version": 3, "colour": 1}, None).forms == memory.forms


def test_a_history_of_other_types_is_refused() -> None:
    memory = make_memory()
    assert memory.history is not None
    with pytest.raises(StateError, match="the history is of 5 types, the memory of 2"):
        read_memory(write_recent(memory), FormHistory.empty(5))
