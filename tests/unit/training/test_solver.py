from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize as scipy_minimize
from scipy.sparse import csr_array

from service.training.solver import Penalties, fit_head, minimize

if TYPE_CHECKING:
    import numpy.typing as npt


def test_the_minimum_is_the_one_that_scipy_finds() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(40, 12))
    target = rng.normal(size=40)

    def evaluate(theta: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        residual = np.tanh(matrix @ theta) - target
        slope = residual * (1 - np.tanh(matrix @ theta) ** 2)
        return float(residual @ residual / 2 + theta @ theta / 2), matrix.T @ slope + theta

    expected = scipy_minimize(evaluate, np.zeros(12), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(minimize(evaluate, 12, max_iterations=200), expected, atol=1e-5)


def test_a_head_learns_from_dense_and_from_sparse_features() -> None:
    rng = np.random.default_rng(1)
    n = 600
    given = rng.integers(0, 3, n)
    dense = rng.normal(size=(n, 5)).astype(np.float32)
    dense[:, 0] += given == 1
    sparse = csr_array((np.ones(n, np.float32), (np.arange(n), 100 * (given == 2) + rng.integers(0, 5, n))), (n, 1000))
    head = fit_head(dense, sparse, given, 3, penalties=Penalties())
    accuracy = float(np.mean((dense @ head.dense + sparse @ head.sparse + head.bias).argmax(axis=1) == given))
    only_dense = fit_head(dense, csr_array((n, 1000), dtype=np.float32), given, 3, penalties=Penalties())
    worse = float(np.mean((dense @ only_dense.dense + only_dense.bias).argmax(axis=1) == given))
    assert accuracy > 0.75 > worse
    assert not head.sparse[200:].any()


def test_larger_penalties_give_smaller_weights_and_the_same_data_the_same_bits() -> None:
    rng = np.random.default_rng(2)
    dense, given = rng.normal(size=(200, 4)).astype(np.float32), rng.integers(0, 2, 200)
    sparse = csr_array((np.ones(200, np.float32), (np.arange(200), given)), (200, 8))
    light, again, heavy = (
        fit_head(dense, sparse, given, 2, penalties=Penalties(weight, weight)) for weight in (1e-4, 1e-4, 1.0)
    )
    assert np.array_equal(light.sparse, again.sparse)
    assert np.abs(heavy.sparse).max() < np.abs(light.sparse).max() / 5
