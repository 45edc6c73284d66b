from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.errors import ModelError
from service.inference.features.hashing import N_BUCKETS
from service.inference.heads.weights import POSITIONS, HeadWeights

if TYPE_CHECKING:
    from pathlib import Path


def make_weights(*, folds: int = 2, width: int = 4, classes: int = 3, seed: int = 0) -> HeadWeights:
    rng = np.random.default_rng(seed)
    buckets = np.zeros((folds, N_BUCKETS, classes), np.float32)
    buckets[:, ::1000] = rng.normal(size=(folds, len(range(0, N_BUCKETS, 1000)), classes))
    return HeadWeights(
        rng.normal(size=(folds, width, POSITIONS * classes)).astype(np.float32),
        rng.normal(size=(folds, POSITIONS, classes)).astype(np.float32),
        buckets,
    )


@pytest.mark.parametrize("width", [0, 4])
def test_weights_come_back_as_they_were_written(tmp_path: Path, width: int) -> None:
    weights = make_weights(width=width)
    weights.save(tmp_path / "heads.npz")
    back = HeadWeights.load(tmp_path / "heads.npz")
    for name in ("states", "offsets", "buckets"):
        assert np.array_equal(getattr(back, name), getattr(weights, name))
    assert (back.n_folds, back.n_classes, back.state_width) == (2, 3, width)


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        make_weights().save(tmp_path / name)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize(
    "broken",
    [
        {"offsets": np.zeros((2, POSITIONS, 4), np.float32)},
        {"offsets": np.zeros((2, 3), np.float32)},
        {"states": np.full((2, 4, 9), np.nan, np.float32)},
        {"states": np.zeros((2, 4, 9), np.float64)},
        {"used_buckets": np.array([N_BUCKETS] * 33)},
        {"used_buckets": np.array([-1] * 33)},
    ],
    ids=str,
)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, broken: dict[str, np.ndarray]) -> None:
    make_weights().save(tmp_path / "heads.npz")
    with np.load(tmp_path / "heads.npz") as file:
        arrays = dict(file)
    np.savez(tmp_path / "heads.npz", **(arrays | broken))
    with pytest.raises(ModelError, match=r"heads\.npz holds arrays that do not fit together: train the model again"):
        HeadWeights.load(tmp_path / "heads.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 damaged", b"no archive"])
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "heads.npz").write_bytes(content)
    with pytest.raises(ModelError, match="does not hold trained heads"):
        HeadWeights.load(tmp_path / "heads.npz")


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "heads.npz", states=np.array([{}], dtype=object), offsets=np.zeros(1))
    with pytest.raises(ModelError, match="does not hold trained heads"):
        HeadWeights.load(tmp_path / "heads.npz")
