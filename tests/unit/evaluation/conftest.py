"""A small data set with known wrong labels, as the arrays of an .npz."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.evaluation.data import EvaluationData, read_evaluation_data

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Arrays = dict[str, np.ndarray]

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def make_arrays(*, sentences: int = 80, noise: float = 0.05, seed: int = 7) -> Arrays:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 10, sentences)
    n = int(lengths.sum())
    truth = rng.choice(5, n, p=[0.6, 0.12, 0.08, 0.12, 0.08])
    given = np.where(rng.random(n) < noise, rng.integers(0, 5, n), truth)
    logits = rng.normal(size=(n, 5)) + 3.5 * np.eye(5)[truth]
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return {
        "probs": probs.astype(np.float32),
        "given": given.astype(np.int8),
        "corrected": truth.astype(np.int8),
        "lengths": lengths.astype(np.int32),
        "keep": np.arange(sentences) % 20 != 19,
        "labels": np.array(LABELS),
        "merge": np.array([0, 1, 1, 2, 2]),
    }


@pytest.fixture
def arrays() -> Arrays:
    return make_arrays()


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    def write(arrays: Arrays, name: str = "small.npz") -> Path:
        np.savez(tmp_path / name, allow_pickle=True, **arrays)
        return tmp_path / name

    return write


@pytest.fixture
def data(arrays: Arrays, save: Callable[..., Path]) -> EvaluationData:
    return read_evaluation_data(save(arrays))
