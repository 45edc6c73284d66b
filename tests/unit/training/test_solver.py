from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize as scipy_minimize
from scipy.sparse import csr_array

from service.inference.heads.results import softmax_rows
from service.training.solver import LinearHead, Penalties, fit_heads, minimize

if TYPE_CHECKING:
    import numpy.typing as npt


def fit_head(
    dense: npt.NDArray[np.float32],
    sparse: csr_array,
    given: npt.NDArray[np.intp],
    n_classes: int,
    *,
    penalties: Penalties,
) -> LinearHead:
    """A head that may see all words."""
    everything = np.ones((1, len(given)), np.bool_)
    return fit_heads(dense, sparse, given, n_classes, everything, penalties=penalties)[0]


def test_the_minimum_is_the_one_that_scipy_finds() -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(40, 12))
    target = rng.normal(size=40)

    def evaluate(theta: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        residual = np.tanh(matrix @ theta) - target
        slope = residual * (1 - np.tanh(matrix @ theta) ** 2)
        return float(residual @ residual / 2 + theta @ theta / 2), matrix.T @ slope + theta

    expected = scipy_minimize(evaluate, np.zeros(12), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    search = minimize(12, max_iterations=200)
    theta = next(search)
    found = None
    while found is None:
        loss, gradient = evaluate(theta.astype(np.float64))
        try:
            theta = search.send((loss, gradient.astype(np.float32)))
        except StopIteration as end:
            found = end.value
    np.testing.assert_allclose(found, expected, atol=1e-5)


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


def test_heads_that_are_fitted_together_are_those_that_are_fitted_alone() -> None:
    """Also where they are too many for one round, and where one ends before the others."""
    rng = np.random.default_rng(4)
    n, n_classes = 300, 20
    given = rng.integers(0, n_classes, n)
    dense = rng.normal(size=(n, 6)).astype(np.float32)
    sparse = csr_array((np.ones(n, np.float32), (np.arange(n), given * 3 + rng.integers(0, 3, n))), (n, 100))
    seen = rng.integers(0, 5, n) != np.arange(5)[:, None]
    seen[1] = False
    seen[1, :3] = True  # three words are learned in a few rounds
    rounds: list[tuple[int, int]] = []
    together = fit_heads(
        dense,
        sparse,
        given,
        n_classes,
        seen,
        penalties=Penalties(0.03, 0.03),
        on_round=lambda *done: rounds.append(done),
    )
    for own, head in zip(seen, together, strict=True):
        alone = fit_head(dense[own], sparse[own], given[own], n_classes, penalties=Penalties(0.03, 0.03))
        found, expected = (
            softmax_rows(dense @ each.dense + sparse @ each.sparse + each.bias) for each in (head, alone)
        )
        np.testing.assert_allclose(found, expected, atol=2e-3)
    assert rounds == sorted(rounds)
    assert rounds[-1] == (120, 120)  # two groups: 3 heads of 20 classes are as many as fit into one product


def test_a_head_learns_nothing_from_words_that_it_may_not_see() -> None:
    rng = np.random.default_rng(5)
    dense, given = rng.normal(size=(100, 4)).astype(np.float32), rng.integers(0, 3, 100)
    sparse = csr_array((np.ones(100, np.float32), (np.arange(100), np.arange(100) // 10)), (100, 10))
    seen = np.arange(100) < [[50], [80]]
    heads = fit_heads(dense, sparse, given, 3, seen, penalties=Penalties())
    given[80:] = (given[80:] + 1) % 3
    dense[80:] *= 7
    again = fit_heads(dense, sparse, given, 3, seen, penalties=Penalties())
    for head, same in zip(heads, again, strict=True):
        assert np.array_equal(head.dense, same.dense)
        assert np.array_equal(head.sparse, same.sparse)
        assert not head.sparse[8:].any()
