from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

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
from service.statistics.memory.memory import MEMORY_MODES, Memory, recall

if TYPE_CHECKING:
    from numpy.typing import NDArray

AUTO, DOCUMENTS = MEMORY_MODES["auto"], MEMORY_MODES["documents"]
NO_CONVENTIONS = WordConventions(np.zeros(0), 0, 0)
MERGE = TypeMerge(("O", "LOC"), (0, 1), 0)


class Sentence(NamedTuple):
    tokens: list[str]
    p_type: list[float]
    given: list[int]

    @property
    def types(self) -> NDArray[np.float64]:
        return np.array([[1 - p, p] for p in self.p_type]).reshape(-1, 2)


word = st.sampled_from(["Ann", "Bo", "UN", "5th", "saw", "."])
sentence = st.lists(st.tuples(word, st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=5).map(
    lambda words: Sentence([w for w, _, _ in words], [p for _, p, _ in words], [g for _, _, g in words])
)
stream = st.lists(sentence, max_size=30)


@pytest.fixture
def small_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generations of 4 and 3 sentences, so that a short stream has many."""
    monkeypatch.setattr(memory_module, "FORM_GENERATION", 4)
    monkeypatch.setattr(memory_module, "TEMPLATE_GENERATION", 3)


def learn(memory: Memory, sentences: list[Sentence]) -> Memory:
    for item in sentences:
        memory.learn(read_keys(item.tokens), item.types, item.given, NO_CONVENTIONS, outside=0)
    return memory


def count_form(sentences: list[Sentence], form: str) -> list[int]:
    counts = np.zeros(3, np.int64)
    for item in sentences:
        for token, types in zip(item.tokens, item.types, strict=True):
            if token == form:
                counts += [1, *np.rint(types * TYPE_SCALE).astype(np.int64)]
    return counts.tolist()


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(stream)
def test_recent_forms_are_those_of_two_generations_and_the_history_has_the_rest(sentences: list[Sentence]) -> None:
    memory = learn(Memory.empty(2, AUTO), sentences)
    first_read = max(0, (len(sentences) // 4 - 1) * 4)
    counts = recall([memory], read_keys(["Ann", "UN", "5th"]))
    assert counts.older is not None
    for row, form in enumerate(["Ann", "UN", "5th"]):
        assert counts.recent[row].tolist() == count_form(sentences[first_read:], form)
        assert counts.older[row].tolist() == count_form(sentences[:first_read], form)


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(stream)
def test_templates_are_those_of_two_generations_without_certain_outside_words(sentences: list[Sentence]) -> None:
    memory = learn(Memory.empty(2, DOCUMENTS), sentences)
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
@example_of(stream, stream)
def test_a_fork_changes_alone(before: list[Sentence], after: list[Sentence]) -> None:
    memory = learn(Memory.empty(2, AUTO), before)
    fork = learn(memory.fork(), after)
    assert memory == learn(Memory.empty(2, AUTO), before)
    assert fork == learn(Memory.empty(2, AUTO), before + after)


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None)
@example_of(st.lists(stream, min_size=1, max_size=3))
def test_memories_are_added_up_in_any_order(streams: list[list[Sentence]]) -> None:
    memories = [learn(Memory.empty(2, AUTO), sentences) for sentences in streams]
    keys = read_keys(["Ann", "saw", "Bo", "."])
    forward, backward = recall(memories, keys), recall(memories[::-1], keys)
    for ours, theirs in zip(forward, backward, strict=True):
        assert np.array_equal(np.asarray(ours), np.asarray(theirs))
    assert forward.older is not None
    everything = [item for sentences in streams for item in sentences]
    assert (forward.recent + forward.older)[0].tolist() == count_form(everything, "Ann")


@pytest.mark.usefixtures("small_generations")
def test_a_full_history_drops_the_forms_last_seen_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "MAX_HISTORY_FORMS", 16)
    sentences = [Sentence([f"W{i}", "Ann"], [0.5, 1.0], [0, 1]) for i in range(60)]
    memory = learn(Memory.empty(2, AUTO), sentences)
    assert memory.history is not None
    kept = memory.history.table.keys
    assert len(kept) <= 16
    newest_dropped = max(int(f"W{i}" not in kept) * i for i in range(56))
    assert {f"W{i}" for i in range(newest_dropped + 1, 56)} < set(kept)
    counts = memory.history.table.get_counts(["Ann"])
    assert counts[0, 0] == 56, "a form that is seen all the time keeps all its counts"


@pytest.mark.usefixtures("small_generations")
@settings(deadline=None, max_examples=30)
@example_of(stream, st.integers(2, 6), st.integers(6, 20))
def test_a_history_never_exceeds_its_limits(sentences: list[Sentence], n_forms: int, n_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history_module, "MAX_HISTORY_FORMS", n_forms)
        patch.setattr(history_module, "MAX_HISTORY_KEY_BYTES", n_bytes)
        memory = learn(Memory.empty(2, AUTO), sentences)
    assert memory.history is not None
    assert len(memory.history.table) <= n_forms
    assert sum(len(key) for key in memory.history.table.keys) <= n_bytes
    assert len(memory.history.last_seen) == len(memory.history.table)


def test_many_types_leave_fewer_rows() -> None:
    memory = Memory.empty(1_000, AUTO)
    assert memory.forms.current.limits.keys * memory.forms.current.width <= memory_module.MAX_GENERATION_NUMBERS
    assert memory.history is not None
    assert memory.history.table.limits.keys * memory.history.table.width <= history_module.MAX_HISTORY_NUMBERS


def test_without_outside_every_word_teaches_its_template() -> None:
    memory = Memory.empty(2, AUTO)
    item = Sentence(["saw"], [0.0], [0])
    memory.learn(read_keys(item.tokens), item.types, item.given, NO_CONVENTIONS, outside=None)
    assert memory.templates.current.numbers.tolist() == [[1, TYPE_SCALE, 0, 1, 0]]


def test_the_gate_adds_up() -> None:
    memory = Memory.empty(2, AUTO)
    item = Sentence(["Ann"], [0.5], [1])
    for _ in range(2):
        conventions = WordConventions(np.zeros(1), GATE_SCALE // 2, 1)
        memory.learn(read_keys(item.tokens), item.types, item.given, conventions, outside=0)
    counts = recall([memory, memory], read_keys(["Ann"]))
    assert (counts.gate_sum, counts.gate_words) == (2 * GATE_SCALE, 4)


def test_another_mode_drops_or_begins_the_history() -> None:
    memory = learn(Memory.empty(2, AUTO), [Sentence(["Ann"], [1.0], [1])])
    documents = memory.with_weights(DOCUMENTS)
    assert documents == replace(memory, history=None)
    assert documents.with_weights(AUTO) == memory
    assert memory.with_weights(AUTO) is memory


def test_an_explanation_has_the_counts_of_the_word() -> None:
    memory = learn(
        Memory.empty(2, AUTO),
        [Sentence(["Ann", "saw", "Bo"], [1.0, 0.0, 0.75], [1, 0, 0]) for _ in range(310)],
    )
    counts: MemoryCounts = recall([memory], read_keys(["Ann", "saw", "Bo"]))
    explained = explain_word([memory], counts, 2, MERGE)
    assert explained.recent == EarlierWords(110, {"O": 27.5, "LOC": 82.5}, 110)
    assert explained.older == EarlierWords(200, {"O": 50.0, "LOC": 150.0}, 200)
    assert explained.template == EarlierWords(40, {"O": 40}, 40)
    assert explain_word([memory], counts, 1, MERGE) == WordExplanation(None, None, EarlierWords(0, {}, 40))
