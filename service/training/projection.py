"""Encoder states to few dense features: standardised, then projected onto their principal components. PURE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

N_COMPONENTS = 256
N_NEIGHBOUR_COMPONENTS = 128


@dataclass(frozen=True, slots=True)
class StateProjection:
    """z = (state - mean) @ matrix, where the matrix also divides by the spread of each state feature."""

    mean: Floats
    matrix: Floats  # [W, C]

    @classmethod
    def fit(cls, states: Floats, n_components: int = N_COMPONENTS) -> StateProjection:
        """From a sample of words' states [n, W]."""
        mean = states.mean(axis=0, dtype=np.float64)
        spread = np.maximum(states.std(axis=0, dtype=np.float64), 1e-6)
        standard: npt.NDArray[np.float64] = (states - mean) / spread
        _, vectors = np.linalg.eigh(standard.T @ standard / max(len(standard), 1))
        components = vectors[:, ::-1][:, : min(n_components, vectors.shape[1])]
        # The sign of an eigenvector is arbitrary: the largest entry is positive, so that fits can be compared.
        components *= np.sign(components[np.abs(components).argmax(axis=0), np.arange(components.shape[1])])
        return cls(mean.astype(np.float32), (components / spread[:, None]).astype(np.float32))

    def project(self, states: Floats) -> Floats:
        return np.asarray((states - self.mean) @ self.matrix, np.float32)


def build_dense_features(projected: Floats, starts: npt.NDArray[np.intp]) -> Floats:
    """A word's components, and the first ones of both neighbours; zeros beyond the edges of its sentence."""
    width = min(N_NEIGHBOUR_COMPONENTS, projected.shape[1])
    left = np.zeros((len(projected), width), np.float32)
    right = np.zeros_like(left)
    left[1:] = projected[:-1, :width]
    right[:-1] = projected[1:, :width]
    left[starts[:-1]] = 0
    right[starts[1:] - 1] = 0
    return np.concatenate([projected, left, right], axis=1)
