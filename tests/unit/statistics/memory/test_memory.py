from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings
from hypothesis import strategies as st

from service.scoring.memory import GATE_SCALE, TYPE_SCALE, MemoryCounts, TypeMerge, WordConventions
from service.statistics.memory import history as history_module
from service.statistics.memory import memory as memory_module
from service.statistics.memory.explain import EarlierWords, WordExplanation, explain_word
from service.statistics.memory.keys import read_keys
from service.statistics.memory.memory import Memory, recall
from tests.support.memory_streams import MemorySentence, streams, teach

NO_CONVENTIONS = WordConventions(np.zeros(0), 0, 0)
MERGE = TypeMerge(("O", "LOC"), (0, 1), 0)


@pytest.fixture
def small_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations of 4 and 3 sentences, so that a short stream has many."""
    monkeypatch.setattr(memory_module, "FORM_GENERATION", 4)
    monkeypatch.setattr(memory_module, "TEMPLATE_GENERATION", 3)


def count_form(sentences: list[MemorySentence], form: str) -> list[int]:
    counts = np.zeros(3, np.int64)
    for item in sentences:
        for token, types in zip(item.tokens, item.types, strict=True):
            if token == form:
                counts += [1, *np.rint(types * TYPE_SCALE).astype(np.int64)]
    return counts.tolist()


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(streams)
def test_recent_forms_are_those_of_two_generations_and_the_history_has_the_rest(
    sentences: list[MemorySentence],
) -> None:
    memory = teach(Memory.create(2, has_history=True), sentences)
    first_read = max(0, (len(sentences) // 4 - 1) * 4)
    counts = recall([memory], read_keys(["Ann", "UN", "5th"]))
    assert counts.older is not None
    for row, form in enumerate(["Ann", "UN", "5th"]):
        assert counts.recent[row].tolist() == count_form(sentences[first_read:], form)
        assert counts.older[row].tolist() == count_form(sentences[:first_read], form)


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(streams)
def test_templates_are_those_of_two_generations_without_certain_outside_words(sentences: list[MemorySentence]) -> None:
    memory = teach(Memory.create(2, has_history=False), sentences)
    first_read = max(0, (len(sentences) // 3 - 1) * 3)
    expected: dict[str, list[int]] = {}
    for item in sentences[first_read:]:
        for template, p, given in zip(read_keys(item.tokens).templates, item.p_type, item.given, strict=True):
            if given == 1 or 1 - p < 0.99:
                row = expected.setdefault(template, [0] * 5)
                parts = [round(part * TYPE_SCALE) for part in (1 - p, p)]
                for column, number in enumerate([1, *parts, int(given == 0), int(given == 1)]):
                    row[column] += number
    templates = list(expected)
    assert memory.templates.get_counts(templates).tolist() == list(expected.values())
    assert len({*memory.templates.current.keys, *memory.templates.previous.keys}) == len(expected)


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(streams, streams)
def test_a_fork_changes_alone(before: list[MemorySentence], after: list[MemorySentence]) -> None:
    memory = teach(Memory.create(2, has_history=True), before)
    fork = teach(memory.fork(), after)
    assert memory == teach(Memory.create(2, has_history=True), before)
    assert fork == teach(Memory.create(2, has_history=True), before + after)


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(st.lists(streams, min_size=1, max_size=3))
def test_memories_are_added_up_in_any_order(parts: list[list[MemorySentence]]) -> None:
    memories = [teach(Memory.create(2, has_history=True), sentences) for sentences in parts]
    keys = read_keys(["Ann", "saw", "Bo", "."])
    forward, backward = recall(memories, keys), recall(memories[::-1], keys)
    for ours, theirs in zip(forward[:-1], backward[:-1], strict=True):
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    assert forward.sentences == backward.sentences[::-1]
    assert forward.older is not None
    everything = [item for sentences in parts for item in sentences]
    assert (forward.recent + forward.older)[0].tolist() == count_form(everything, "Ann")


@pytest.mark.usefixtures("small_generations")
def test_a_full_history_drops_the_forms_last_seen_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MAX_HISTORY_FORMS", 16)
    sentences = [MemorySentence([f"W{i}", "Ann"], [0.5, 1.0], [0, 1]) for i in range(60)]
    memory = teach(Memory.create(2, has_history=True), sentences)
    assert memory.history is not None
    kept = memory.history.table.keys
    assert len(kept) <= 16
    newest_dropped = max(int(f"W{i}" not in kept) * i for i in range(56))
    assert {f"W{i}" for i in range(newest_dropped + 1, 56)} < set(kept)
    counts = memory.history.table.get_counts(["Ann"])
    assert counts[0, 0] == 56, "a form that is seen all the time keeps all its counts"


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None, max_examples=30)
@example_of(streams, st.integers(2, 6), st.integers(6, 20))
def test_a_history_never_exceeds_its_limits(sentences: list[MemorySentence], n_forms: int, n_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_module, "MAX_HISTORY_FORMS", n_forms)
        patch.setattr(history_module, "MAX_HISTORY_KEY_BYTES", n_bytes)
        memory = teach(Memory.create(2, has_history=True), sentences)
    assert memory.history is not None
    assert len(memory.history.table) <= n_forms
    assert sum(len(key) for key in memory.history.table.keys) <= n_bytes
    assert len(memory.history.last_seen) == len(memory.history.table)


def test_many_types_leave_fewer_rows() -> None:
    memory = Memory.create(1_000, has_history=True)
    assert memory.forms.current.limits.keys * memory.forms.current.width <= memory_module.MAX_GENERATION_NUMBERS
    assert memory.history is not None
    assert memory.history.table.limits.keys * memory.history.table.width <= history_module.MAX_HISTORY_NUMBERS


def test_without_outside_every_word_teaches_its_template() -> None:
    memory = Memory.create(2, has_history=True)
    item = MemorySentence(["saw"], [0.0], [0])
    memory.learn(read_keys(item.tokens), item.types, item.given, NO_CONVENTIONS, outside=None)
    assert memory.templates.current.numbers.tolist() == [[1, TYPE_SCALE, 0, 1, 0]]


def test_the_gate_adds_up() -> None:
    memory = Memory.create(2, has_history=True)
    item = MemorySentence(["Ann"], [0.5], [1])
    for _ in range(2):
        conventions = WordConventions(np.zeros(1), GATE_SCALE // 2, 1)
        memory.learn(read_keys(item.tokens), item.types, item.given, conventions, outside=0)
    counts = recall([memory, memory], read_keys(["Ann"]))
    assert (counts.gate_sum, counts.gate_words) == (2 * GATE_SCALE, 4)


def test_another_mode_drops_or_begins_the_history() -> None:
    memory = teach(Memory.create(2, has_history=True), [MemorySentence(["Ann"], [1.0], [1])])
    documents = memory.with_history(has_history=False)
    assert documents == replace(memory, history=None)
    assert documents.with_history(has_history=True) == memory
    assert memory.with_history(has_history=True) is memory


def test_an_explanation_has_the_counts_of_the_word() -> None:
    memory = teach(
        Memory.create(2, has_history=True),
        [MemorySentence(["Ann", "saw", "Bo"], [1.0, 0.0, 0.75], [1, 0, 0]) for _ in range(310)],
    )
    counts: MemoryCounts = recall([memory], read_keys(["Ann", "saw", "Bo"]))
    explained = explain_word(counts, 2, MERGE)
    assert explained.recent == EarlierWords(110, {"O": 27.5, "LOC": 82.5}, 110)
    assert explained.older == EarlierWords(200, {"O": 50.0, "LOC": 150.0}, 200)
    assert explained.template == EarlierWords(40, {"O": 40}, 40)
    assert explain_word(counts, 1, MERGE) == WordExplanation(None, None, EarlierWords(0, {}, 40))
