"""Short streams of made-up sentences for memories of two types, O and LOC."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from hypothesis import strategies as st

from service.scoring.memory import WordConventions
from service.statistics.memory.keys import read_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from service.statistics.memory.memory import Memory


class MemorySentence(NamedTuple):
    tokens: list[str]
    p_type: list[float]
    given: list[int]
    gate: int = 0

    @property
    def types(self) -> NDArray[np.float64]:
        return np.array([[1 - p, p] for p in self.p_type]).reshape(-1, 2)


words = st.sampled_from(["Ann", "Bo", "UN", "5th", "saw", ".", "Ü\x00", "\ud800X"])
sentences = st.builds(
    lambda words, gate: MemorySentence(
        [w for w, _, _ in words], [p for _, p, _ in words], [g for _, _, g in words], gate
    ),
    st.lists(st.tuples(words, st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=5),
    st.integers(-(2**20), 2**20),
)
streams = st.lists(sentences, max_size=30)


def teach(memory: Memory, stream: list[MemorySentence]) -> Memory:
    for sentence in stream:
        conventions = WordConventions(np.zeros(0), sentence.gate, 1)
        memory.learn(read_keys(sentence.tokens), sentence.types, sentence.given, conventions, outside=0)
    return memory
