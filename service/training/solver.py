"""Multinomial logistic regression over dense and sparse features, by L-BFGS from zero."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from scipy.sparse import csr_array

    Floats = npt.NDArray[np.float32]
    Vector = npt.NDArray[np.float64]

MAX_ITERATIONS = 60
HISTORY = 10
SUFFICIENT_DECREASE = 1e-4
MAX_HALVINGS = 20
MIN_GRADIENT = 1e-6


@dataclass(frozen=True, slots=True)
class Penalties:
    """L2 penalties on the weights. Three times what suits clean labels: labels with errors ask for more."""

    dense: float = 3e-3
    sparse: float = 3e-4


@dataclass(frozen=True, slots=True)
class LinearHead:
    """Weights of one head: `dense` [D, K], `sparse` [buckets, K] and `bias` [K]."""

    dense: Floats
    sparse: Floats
    bias: Floats


def fit_head(
    dense: Floats,
    sparse: csr_array,
    given: npt.NDArray[np.intp],
    n_classes: int,
    *,
    penalties: Penalties,
    max_iterations: int = MAX_ITERATIONS,
) -> LinearHead:
    """Fits a head to words: their features [N, D] and [N, buckets], and their given classes [N].

    Buckets that no word of these uses keep the weight 0 and take no part in the fit.
    """
    n, width = dense.shape
    used = np.unique(sparse.indices)
    compact = sparse[:, used]
    transposed = compact.T.tocsr()
    rows = np.arange(n)
    split = width * n_classes
    end = split + len(used) * n_classes

    def unpack(theta: Vector) -> tuple[Floats, Floats, Floats]:
        values = theta.astype(np.float32)
        return values[:split].reshape(width, n_classes), values[split:end].reshape(-1, n_classes), values[end:]

    def evaluate(theta: Vector) -> tuple[float, Vector]:
        dense_weights, sparse_weights, bias = unpack(theta)
        logits = dense @ dense_weights + compact @ sparse_weights + bias
        logits -= logits.max(axis=1, keepdims=True)
        probs = np.exp(logits)
        total = probs.sum(axis=1, keepdims=True)
        loss = float(np.mean(np.log(total[:, 0], dtype=np.float64) - logits[rows, given]))
        probs /= total
        probs[rows, given] -= 1
        probs /= n
        gradient = np.empty_like(theta)
        gradient[:split] = (dense.T @ probs).ravel()
        gradient[split:end] = (transposed @ probs).ravel()
        gradient[end:] = probs.sum(axis=0)
        for part, penalty in ((slice(0, split), penalties.dense), (slice(split, end), penalties.sparse)):
            loss += 0.5 * penalty * _dot(theta[part], theta[part])
            gradient[part] += penalty * theta[part]
        return loss, gradient

    dense_weights, sparse_weights, bias = unpack(minimize(evaluate, end + n_classes, max_iterations=max_iterations))
    buckets = np.zeros((sparse.shape[1], n_classes), np.float32)
    buckets[used] = sparse_weights
    return LinearHead(dense_weights, buckets, bias)


def minimize(evaluate: Callable[[Vector], tuple[float, Vector]], size: int, *, max_iterations: int) -> Vector:
    """L-BFGS from zero, for a smooth and strictly convex function: halving the step is line search enough."""
    theta = np.zeros(size)
    loss, gradient = evaluate(theta)
    history: deque[tuple[Vector, Vector, float]] = deque(maxlen=HISTORY)
    for _ in range(max_iterations):
        if float(np.abs(gradient).max()) < MIN_GRADIENT:
            break
        direction = -_apply_inverse_hessian(gradient, history)
        slope = _dot(gradient, direction)
        step = 1.0 if history else min(1.0, 1.0 / _dot(gradient, gradient) ** 0.5)
        for _ in range(MAX_HALVINGS):
            candidate = theta + step * direction
            new_loss, new_gradient = evaluate(candidate)
            if new_loss <= loss + SUFFICIENT_DECREASE * step * slope:
                break
            step /= 2
        else:
            break  # rounding: no step makes the loss smaller
        moved, change = candidate - theta, new_gradient - gradient
        curvature = _dot(moved, change)
        if curvature > 0:
            history.append((moved, change, 1 / curvature))
        theta, loss, gradient = candidate, new_loss, new_gradient
    return theta


def _apply_inverse_hessian(gradient: Vector, history: deque[tuple[Vector, Vector, float]]) -> Vector:
    """The two-loop recursion: the gradient times an approximate inverse of the Hessian."""
    result = gradient.copy()
    weights = []
    for moved, change, inverse in reversed(history):
        weight = inverse * _dot(moved, result)
        result -= weight * change
        weights.append(weight)
    if history:
        moved, change, inverse = history[-1]
        result *= 1 / (inverse * _dot(change, change))
    for (moved, change, inverse), weight in zip(history, reversed(weights), strict=True):
        result += (weight - inverse * _dot(change, result)) * moved
    return result


def _dot(left: Vector, right: Vector) -> float:
    """Without BLAS: its threads wait for each other on a busy machine, 10 ms a product where this takes 0.5."""
    return float((left * right).sum())
