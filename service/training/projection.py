"""Encoder states to few dense features: standardised, then projected onto their principal components. PURE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh

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
        standard = ((states - mean.astype(np.float32)) / spread.astype(np.float32)).astype(np.float32)
        width = states.shape[1]
        first = max(width - n_components, 0)
        covariance = (standard.T @ standard).astype(np.float64) / max(len(standard), 1)
        _, vectors = eigh(covariance, subset_by_index=(first, width - 1), overwrite_a=True)
        components = vectors[:, ::-1]
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
