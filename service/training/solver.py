"""Multinomial logistic regression over dense and sparse features, by L-BFGS from zero."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    import numpy.typing as npt
    from scipy.sparse import csr_array

    Floats = npt.NDArray[np.float32]
    Search = Generator[Floats, tuple[float, Floats], Floats]

MAX_ITERATIONS = 60
HISTORY = 10
SUFFICIENT_DECREASE = 1e-4
MAX_HALVINGS = 20
MIN_GRADIENT = 1e-6
MAX_COLUMNS = 64  # of a product over several heads: wider ones gain nothing and take memory


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


def fit_heads(
    dense: Floats,
    sparse: csr_array,
    given: npt.NDArray[np.intp],
    n_classes: int,
    seen: npt.NDArray[np.bool_],
    *,
    penalties: Penalties,
    max_iterations: int = MAX_ITERATIONS,
    on_round: Callable[[int, int], None] | None = None,
) -> list[LinearHead]:
    """Fits one head per row of `seen` [F, N], which says which words the head may learn from.

    The words have the features [N, D] and [N, buckets] and the given classes [N]. Each head starts from zero: a start
    from another head's weights would carry in labels that this head must not see. Heads are fitted several at a time,
    because one wide matrix product takes a third of the time of five narrow ones. `on_round` is told how many rounds of
    the searches are done, and how many there are at most.
    """
    problem = _Problem.build(dense, sparse, given, n_classes, penalties)
    together = max(1, MAX_COLUMNS // n_classes)
    groups = [seen[first : first + together] for first in range(0, len(seen), together)]
    heads: list[LinearHead] = []
    for group, rows in enumerate(groups):

        def report(done: int, group: int = group) -> None:
            if on_round is not None:
                on_round(group * max_iterations + min(done, max_iterations), len(groups) * max_iterations)

        searches = [minimize(problem.size, max_iterations=max_iterations) for _ in rows]
        heads += [
            problem.to_head(theta) for theta in _run_together(searches, partial(problem.evaluate, seen=rows), report)
        ]
        report(max_iterations)
    return heads


@dataclass(frozen=True, slots=True)
class _Problem:
    """The loss of heads and its gradient. A vector of parameters holds a head's dense weights, sparse weights and bias."""

    dense: Floats
    sparse: csr_array  # only the columns of buckets that some word uses
    transposed: csr_array
    used: npt.NDArray[np.intp]
    n_buckets: int
    given: npt.NDArray[np.intp]
    n_classes: int
    penalties: Penalties

    @classmethod
    def build(
        cls, dense: Floats, sparse: csr_array, given: npt.NDArray[np.intp], n_classes: int, penalties: Penalties
    ) -> _Problem:
        used = np.unique(sparse.indices)
        compact = sparse[:, used]
        return cls(dense, compact, compact.T.tocsr(), used, sparse.shape[1], given, n_classes, penalties)

    @property
    def size(self) -> int:
        return int(self.dense.shape[1] + len(self.used) + 1) * self.n_classes

    def split(self, vector: Floats) -> tuple[Floats, Floats, Floats]:
        """The parts of a vector, as views [D, K], [U, K] and [K]."""
        start = self.dense.shape[1] * self.n_classes
        end = start + len(self.used) * self.n_classes
        parts = vector[:start], vector[start:end], vector[end:]
        return parts[0].reshape(-1, self.n_classes), parts[1].reshape(-1, self.n_classes), parts[2]

    def evaluate(self, thetas: Mapping[int, Floats], seen: npt.NDArray[np.bool_]) -> dict[int, tuple[float, Floats]]:
        """The loss and the gradient of each head, side by side in all products. Keys are rows of `seen`."""
        parts = [self.split(theta) for theta in thetas.values()]
        # [columns, N]: softmax over a column's classes is eight times as fast over long rows as over short ones.
        logits = np.concatenate([part[0] for part in parts], axis=1).T @ self.dense.T
        logits += (self.sparse @ np.concatenate([part[1] for part in parts], axis=1)).T
        logits += np.concatenate([part[2] for part in parts])[:, None]
        by_head = logits.reshape(len(thetas), self.n_classes, -1)
        losses = [_turn_into_slopes(by_head[i], self.given, seen[head]) for i, head in enumerate(thetas)]
        dense_slopes = (logits @ self.dense).T
        sparse_slopes = self.transposed @ logits.T
        bias_slopes = logits.sum(axis=1)
        answers = {}
        for i, (head, theta) in enumerate(thetas.items()):
            columns = slice(i * self.n_classes, (i + 1) * self.n_classes)
            gradient, loss = np.empty_like(theta), losses[i]
            own, theirs = self.split(gradient), self.split(theta)
            own[0][:], own[1][:], own[2][:] = dense_slopes[:, columns], sparse_slopes[:, columns], bias_slopes[columns]
            for part, penalty in ((0, self.penalties.dense), (1, self.penalties.sparse)):
                weights = theirs[part].ravel()
                loss += 0.5 * penalty * _dot(weights, weights)
                own[part][:] += np.float32(penalty) * theirs[part]
            answers[head] = loss, gradient
        return answers

    def to_head(self, theta: Floats) -> LinearHead:
        dense_weights, sparse_weights, bias = self.split(theta)
        buckets = np.zeros((self.n_buckets, self.n_classes), np.float32)
        buckets[self.used] = sparse_weights
        return LinearHead(dense_weights, buckets, bias)


def _turn_into_slopes(logits: Floats, given: npt.NDArray[np.intp], seen: npt.NDArray[np.bool_]) -> float:
    """Replaces a head's logits [K, N] by the slopes of its loss: zero for words that it may not see. Returns the loss."""
    words = np.flatnonzero(seen)
    targets = given[words]
    logits -= logits.max(axis=0)
    reached = logits[targets, words]
    np.exp(logits, out=logits)
    totals = logits.sum(axis=0)
    loss = float(np.mean(np.log(totals[words], dtype=np.float64) - reached))
    logits *= seen / (totals * np.float32(len(words)))
    logits[targets, words] -= np.float32(1 / len(words))
    return loss


def _run_together(
    searches: Sequence[Search],
    evaluate: Callable[[Mapping[int, Floats]], Mapping[int, tuple[float, Floats]]],
    on_round: Callable[[int], None],
) -> list[Floats]:
    """Runs searches in step with each other: each round evaluates one point of every search that has not ended."""
    points = {i: next(search) for i, search in enumerate(searches)}
    found: dict[int, Floats] = {}
    for done in count(1):
        answers, points = evaluate(points), {}
        for i, answer in answers.items():
            try:
                points[i] = searches[i].send(answer)
            except StopIteration as end:
                found[i] = end.value
        if not points:
            break
        on_round(done)
    return [found[i] for i in range(len(searches))]


def minimize(size: int, *, max_iterations: int) -> Search:
    """L-BFGS from zero, for a smooth and strictly convex function: halving the step is line search enough.

    Yields points and is sent the loss and the gradient there; returns the minimum.
    """
    theta = np.zeros(size, np.float32)
    loss, gradient = yield theta
    history: deque[tuple[Floats, Floats, float]] = deque(maxlen=HISTORY)
    for _ in range(max_iterations):
        if float(np.abs(gradient).max()) < MIN_GRADIENT:
            break
        direction = -_apply_inverse_hessian(gradient, history)
        slope = _dot(gradient, direction)
        step = 1.0 if history else min(1.0, 1.0 / _dot(gradient, gradient) ** 0.5)
        for _ in range(MAX_HALVINGS):
            candidate = theta + np.float32(step) * direction
            new_loss, new_gradient = yield candidate
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


def _apply_inverse_hessian(gradient: Floats, history: deque[tuple[Floats, Floats, float]]) -> Floats:
    """The two-loop recursion: the gradient times an approximate inverse of the Hessian."""
    result = gradient.copy()
    weights = []
    for moved, change, inverse in reversed(history):
        weight = inverse * _dot(moved, result)
        result -= np.float32(weight) * change
        weights.append(weight)
    if history:
        moved, change, inverse = history[-1]
        result *= np.float32(1 / (inverse * _dot(change, change)))
    for (moved, change, inverse), weight in zip(history, reversed(weights), strict=True):
        result += np.float32(weight - inverse * _dot(change, result)) * moved
    return result


def _dot(left: Floats, right: Floats) -> float:
    """Without BLAS: its threads wait for each other on a busy machine, 10 ms a product where this takes 0.5."""
    return float((left * right).sum(dtype=np.float64))
