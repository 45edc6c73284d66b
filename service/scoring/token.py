"""A quality score for each word: how well the model's probabilities support the given label. Low is bad."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from service.scoring.flat import Floats, Ints

TokenScore: TypeAlias = Callable[[Floats, Ints], Floats]


def predict_classes(probs: Floats) -> Ints:
    """The class with the largest probability; of equal classes the first."""
    # Without sentences there may be no classes, and numpy has no argmax of an empty axis.
    return probs.argmax(axis=1) if probs.size else np.zeros(len(probs), dtype=np.intp)


def self_confidence(probs: Floats, given: Ints) -> Floats:
    """The probability of the given label."""
    own: Floats = probs[np.arange(len(given)), given]
    return own


def normalized_margin(probs: Floats, given: Ints) -> Floats:
    """(p_y − max_{j≠y} p_j + 1) / 2: the paper's margin scaled to [0, 1], without the given class in the max."""
    return (self_confidence(probs, given) - compute_max_other(probs, given) + 1) / 2


def compute_max_other(probs: Floats, given: Ints) -> Floats:
    """The largest probability of a class that is not the given one."""
    others = probs.copy()
    others[np.arange(len(given)), given] = 0.0
    best: Floats = others.max(axis=1, initial=0.0)
    return best


def confidence_weighted_entropy(probs: Floats, given: Ints) -> Floats:
    """ln(1 + x) / x with x = H / (p_y·ln K): 1 where the model is sure of the label, 0 where it is sure of another.

    In log space and without clipping. Clipping p_y and x, as usual, reverses the order where the model is saturated: a
    label with p_y = 2e-9 gets a better score than one with p_y = 1 − 2e-9.
    """
    n_words, n_classes = probs.shape
    if n_classes < 2 or not n_words:
        return np.ones(n_words)
    rows = np.arange(n_words)
    own = self_confidence(probs, given)
    top = predict_classes(probs)

    # A float near 1 has lost the difference to 1, which is all of the entropy. The sum of the other classes has it.
    others = probs.copy()
    others[rows, top] = 0.0
    missing = others.sum(axis=1)
    total = missing + probs[rows, top]
    others /= total[:, None]
    missing /= total
    logs = np.zeros_like(others)
    np.log(others, out=logs, where=others > 0)
    entropy = -(others * logs).sum(axis=1) - (1 - missing) * np.log1p(-missing)

    # The limit for x = 0 (one-hot and right) is 1, for p_y = 0 (x without bound) 0. The formula fails for both.
    score = np.where(own > 0, 1.0, 0.0)
    usual = (own > 0) & (entropy > 0)
    log_x = np.log(entropy[usual] / np.log(n_classes)) - np.log(own[usual] / total[usual])
    # For x < e^-40 the score is 1 to the last bit, so the factor e^-log_x is needed up to e^40 only.
    score[usual] = np.where(log_x < -40, 1.0, np.logaddexp(0.0, log_x) * np.exp(-np.maximum(log_x, -40)))
    return np.minimum(score, 1.0)


def adjust_probs(probs: Floats, thresholds: Floats) -> Floats:
    """Probabilities minus the class thresholds, shifted above 0 and normalised: corrects for class imbalance."""
    shifted = probs - thresholds
    shifted += thresholds.max()
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted


DEFAULT_TOKEN_SCORE = "self-confidence"

TOKEN_SCORES: Mapping[str, TokenScore] = MappingProxyType(
    {
        DEFAULT_TOKEN_SCORE: self_confidence,
        "normalized-margin": normalized_margin,
        "confidence-weighted-entropy": confidence_weighted_entropy,
    }
)
