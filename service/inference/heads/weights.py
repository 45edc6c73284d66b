"""The weights of cross-fitted heads, and the file that holds them. No pickle."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from service.errors import ModelError
from service.inference.features.hashing import N_BUCKETS

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

POSITIONS = 3  # a word's own state, and its left and right neighbour's


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """All heads: F folds, W state features, B buckets, K classes.

    `states` [F, W, 3K]: what a word's state adds to its own logits, to those of the word after it (of which it is the
    left neighbour) and to those of the word before it. `offsets` [F, 3, K] are added with each of the three.
    `buckets` [F, B, K] are the weights of hashed features. Without an encoder W is 0.
    """

    states: Floats
    offsets: Floats
    buckets: Floats

    @property
    def n_folds(self) -> int:
        return len(self.offsets)

    @property
    def n_classes(self) -> int:
        return int(self.offsets.shape[2])

    @property
    def state_width(self) -> int:
        return int(self.states.shape[1])

    def save(self, path: Path) -> None:
        """Writes the weights; of the buckets only those that have any."""
        used = np.flatnonzero(np.abs(self.buckets).max(axis=(0, 2)) > 0)
        np.savez_compressed(
            path, states=self.states, offsets=self.offsets, used_buckets=used, buckets=self.buckets[:, used]
        )

    @classmethod
    def load(cls, path: Path) -> HeadWeights:
        try:
            # Opened here, not by numpy: it leaves a damaged file open.
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                states, offsets = file["states"], file["offsets"]
                used, values = file["used_buckets"], file["buckets"]
        except (OSError, EOFError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise ModelError(f"{path} does not hold trained heads ({error}): train the model again") from error
        n_folds, positions, n_classes = offsets.shape if offsets.ndim == 3 else (0, 0, 0)
        fits = (
            n_folds > 0
            and positions == POSITIONS
            and states.ndim == 3
            and states.shape[::2] == (n_folds, POSITIONS * n_classes)
            and values.shape == (n_folds, len(used), n_classes)
            and (not len(used) or 0 <= used.min() <= used.max() < N_BUCKETS)
        )
        arrays = (states, offsets, values)
        if not fits or not all(a.dtype == np.float32 and np.isfinite(a).all() for a in arrays):
            raise ModelError(f"{path} holds arrays that do not fit together: train the model again")
        buckets = np.zeros((n_folds, N_BUCKETS, n_classes), np.float32)
        buckets[:, used] = values
        return cls(states, offsets, buckets)
