"""Fits one head per fold on all other folds, and collects what each says of the fold it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from service.inference.features.folds import N_FOLDS, compute_fold
from service.inference.features.hashing import N_BUCKETS, FeatureHasher
from service.inference.heads.results import softmax_rows
from service.inference.heads.weights import POSITIONS, HeadWeights
from service.training.projection import build_dense_features
from service.training.sentences import NO_CLASS
from service.training.solver import LinearHead, Penalties, fit_heads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from service.training.projection import StateProjection
    from service.training.sentences import TrainingSet

    Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CrossFit:
    """The heads, and the probabilities [N, K] of all words by the head that did not see them."""

    weights: HeadWeights
    probs: npt.NDArray[np.float64]


def cross_fit(
    data: TrainingSet,
    projected: Floats,
    projection: StateProjection | None,
    *,
    n_folds: int = N_FOLDS,
    penalties: Penalties | None = None,
    on_round: Callable[[int, int], None] | None = None,
) -> CrossFit:
    """`projected` [N, C] are the words' components; C is 0 without an encoder, and `projection` None.

    `on_round` is told how many rounds of fitting are done, and how many there are at most.
    """
    penalties = penalties or Penalties()
    dense = build_dense_features(projected, data.starts)
    sparse = build_sparse_features(data.sentences)
    lengths = np.diff(data.starts)
    fold = np.repeat([compute_fold(words, n_folds) for words in data.sentences], lengths)
    n_classes = len(data.classes)
    held_out = fold == np.arange(n_folds)[:, None]
    seen = ~held_out & (data.given != NO_CLASS)
    heads = fit_heads(dense, sparse, data.given, n_classes, seen, penalties=penalties, on_round=on_round)
    probs = np.zeros((len(data.given), n_classes))
    for judged, head in zip(held_out, heads, strict=True):
        logits = dense[judged] @ head.dense + sparse[judged] @ head.sparse + head.bias
        probs[judged] = softmax_rows(logits.astype(np.float64))
    return CrossFit(fold_projection_in(heads, projection, n_classes), probs)


def build_sparse_features(sentences: Sequence[Sequence[str]]) -> csr_array:
    hasher = FeatureHasher()
    hashed = [hasher.hash_sentence(words) for words in sentences]
    buckets = np.concatenate([features.buckets for features in hashed])
    sizes = np.concatenate([np.diff(features.starts) for features in hashed])
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return csr_array((np.ones(len(buckets), np.float32), buckets, starts), shape=(len(sizes), N_BUCKETS))


def fold_projection_in(heads: Sequence[LinearHead], projection: StateProjection | None, n_classes: int) -> HeadWeights:
    """The heads over encoder states: standardising and projecting are linear, so serving needs one product a sentence."""
    width = 0 if projection is None else projection.matrix.shape[0]
    states = np.zeros((len(heads), width, POSITIONS * n_classes), np.float32)
    offsets = np.zeros((len(heads), POSITIONS, n_classes), np.float32)
    for f, head in enumerate(heads):
        offsets[f, 0] = head.bias
        if projection is None:
            continue
        n_own = projection.matrix.shape[1]
        n_side = (len(head.dense) - n_own) // 2
        bounds = (0, n_own, n_own + n_side, n_own + 2 * n_side)
        for position in range(POSITIONS):
            part = head.dense[bounds[position] : bounds[position + 1]].astype(np.float64)
            matrix = projection.matrix[:, : len(part)].astype(np.float64) @ part
            states[f, :, position * n_classes : (position + 1) * n_classes] = matrix
            offsets[f, position] -= (projection.mean.astype(np.float64) @ matrix).astype(np.float32)
    return HeadWeights(states, offsets, np.stack([head.sparse for head in heads]))
