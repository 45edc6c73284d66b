"""Confident learning: a threshold per class, the words it flags, and the weights behind `priority`.

Thresholds need only sums and counts, so a stream and one pass over all data give the same thresholds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.errors import InvalidInput
from service.scoring.flat import Bools, FlatSentences, Floats, Ints, segment_min
from service.scoring.token import predict_classes, self_confidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNREACHABLE_THRESHOLD = 2.0
"""The threshold of a class without evidence: no probability reaches it."""

MIN_THRESHOLD = 2e-6
MARGIN = 1e-6
"""A probability that is lower than a threshold by less than this reaches it, and a given label that is less probable
than the most probable class by less than this counts as the most probable: rounding decides nothing."""

MIN_DOUBT = 1e-3
"""The smallest denominator 1 − t of the agreement weights."""


def sum_by_class(probs: Floats, given: Ints) -> tuple[Floats, NDArray[np.int64]]:
    """Per class: the sum of p(class) over the words given it, and their number."""
    return _sum_and_count(self_confidence(probs, given), given, probs.shape[1])


def sum_agreeing_by_class(probs: Floats, given: Ints) -> tuple[Floats, NDArray[np.int64]]:
    """`sum_by_class` over the words whose most probable class is the given one; of equal classes the first counts."""
    agree = predict_classes(probs) == given
    return _sum_and_count(self_confidence(probs, given)[agree], given[agree], probs.shape[1])


def _sum_and_count(own: Floats, given: Ints, n_classes: int) -> tuple[Floats, NDArray[np.int64]]:
    return (
        np.bincount(given, weights=own, minlength=n_classes).astype(np.float64, copy=False),
        np.bincount(given, minlength=n_classes).astype(np.int64, copy=False),
    )


def compute_thresholds(sums: Floats, counts: NDArray[np.int64]) -> Floats:
    """The mean probability of each class over the words given it; UNREACHABLE_THRESHOLD for a class without words."""
    means = np.full(len(counts), UNREACHABLE_THRESHOLD)
    np.divide(sums, counts, out=means, where=counts > 0)
    np.maximum(means, MIN_THRESHOLD, out=means)
    return means


def flag_words(probs: Floats, given: Ints, thresholds: Floats) -> Bools:
    """The words whose given label is doubtful.

    Both must hold: the most probable class is another one even with MARGIN added to the probability of the given class,
    and some other class, not necessarily the most probable one, reaches its threshold.
    """
    if probs.shape != (len(given), len(thresholds)):
        raise InvalidInput(
            f"{probs.shape} probabilities for {len(given)} words and {len(thresholds)} thresholds", field="probs"
        )
    flags = np.zeros(len(given), dtype=np.bool_)
    # The model disagrees on few words, so the full rule runs on those alone.
    doubtful = (predict_classes(probs) != given).nonzero()[0]
    if doubtful.size:
        flags[doubtful] = _flag_doubtful(probs[doubtful], given[doubtful], thresholds)
    return flags


def _flag_doubtful(probs: Floats, given: Ints, thresholds: Floats) -> Bools:
    """The full rule. Changes `probs` in place."""
    rows = np.arange(len(given))
    confident = probs >= thresholds - MARGIN
    confident[rows, given] = False
    probs[rows, given] += MARGIN
    flags: Bools = (probs.argmax(axis=1) != given) & confident.any(axis=1)
    return flags


class SentenceFlags(NamedTuple):
    """The flags of one sentence, the self-confidence of its words, and the lowest self-confidence."""

    flags: Bools
    confidence: Floats
    score: float


def flag_sentence(probs: Floats, given: Ints, thresholds: Floats) -> SentenceFlags:
    """Flags and worst token of one sentence, with less overhead than `flag_words` and `worst_token`."""
    own = self_confidence(probs, given)
    return SentenceFlags(flag_words(probs, given, thresholds), own, float(own.min()))


def compute_agreement_weights(given_means: Floats, agreeing_means: Floats) -> Floats:
    """How far a low probability on words of a class indicates an error, from 0 to 1.

    `given_means` t are over all words given a class, `agreeing_means` a over those where the model agrees: label noise
    lowers t but not a. A class that the model is unsure of even where it agrees weighs less.
    """
    doubt = np.clip((1 - agreeing_means) / np.maximum(1 - given_means, MIN_DOUBT), 0, 1)
    weights: Floats = (1 - agreeing_means.max() + agreeing_means) ** doubt
    return weights


def compute_weighted_scores(probs: Floats, given: Ints, weights: Floats) -> Floats:
    """The agreement-weighted score of each word."""
    return apply_weights(self_confidence(probs, given), weights[given])


def apply_weights(confidence: Floats, weights: Floats) -> Floats:
    """1 − (1 − p)·w, in a form that loses no digits: weights lie between .99 and 1, so the order is in the last digits."""
    return confidence + (1 - confidence) * (1 - weights)


def compute_priority(flat: FlatSentences, weights: Floats) -> Floats:
    """The lowest weighted word score of each sentence."""
    return segment_min(compute_weighted_scores(flat.probs, flat.given, weights), flat)


def prune_by_noise_rate(probs: Floats, given: Ints) -> Bools:
    """The flags of the paper's tables, for batch evaluation only, since they need all words at once.

    From the words that reach some class's threshold it estimates how many words given k are really j, and flags that
    many: those with the largest p_j − p_k. Words whose given label is the most probable class are not flagged.
    """
    n_words, n_classes = probs.shape
    flags = np.zeros(n_words, dtype=np.bool_)
    if not n_words:
        return flags
    counts = np.bincount(given, minlength=n_classes)
    to_flag = _count_words_to_flag(probs, given, counts)
    for k in np.flatnonzero(counts > 1):  # the only word of a class is never flagged
        words = np.flatnonzero(given == k)
        for j in np.flatnonzero(to_flag[:, k]):
            # The default sort is not stable; cleanlab uses it too, so equal margins are flagged in the same order.
            order = np.argsort(probs[words, k] - probs[words, j])
            flags[words[order[: to_flag[j, k]]]] = True
    boosted = probs.copy()
    boosted[np.arange(n_words), given] += MARGIN
    flags &= boosted.argmax(axis=1) != given
    return flags


def _count_words_to_flag(probs: Floats, given: Ints, counts: Ints) -> Ints:
    """[j, k]: how many words given k are estimated to be j. The diagonal, words that are right, is 0."""
    n_classes = len(counts)
    confident = probs >= compute_thresholds(*sum_by_class(probs, given)) - MARGIN
    n_confident = confident.sum(axis=1)
    guess = np.where(n_confident > 1, probs.argmax(axis=1), confident.argmax(axis=1))
    counted = n_confident > 0
    joint = np.bincount(guess[counted] * n_classes + given[counted], minlength=n_classes**2)
    joint = joint.reshape(n_classes, n_classes)
    np.fill_diagonal(joint, np.maximum(joint.diagonal(), 1))

    # Scale the estimate so that each class has as many words as were given it.
    scaled = joint / joint.sum(axis=0) * counts
    scaled = scaled / scaled.sum() * counts.sum()
    whole = np.stack([_round_keeping_sum(column) for column in scaled.T], axis=1)

    # At least one word of each class is right; the diagonal takes what it lacks evenly from the rest of its column.
    right = np.maximum(whole.diagonal(), 1)
    sources = np.maximum(np.count_nonzero(whole, axis=0) - 1, 1)
    to_flag: Ints = np.maximum(whole - (right - whole.diagonal()) / sources, 0).astype(np.intp)
    np.fill_diagonal(to_flag, 0)
    return to_flag


def _round_keeping_sum(values: Floats) -> Ints:
    """Rounds to whole numbers with the same sum; the values nearest to the next whole number are adjusted."""
    whole = values.round()
    missing = int(values.sum().round() - whole.sum())
    order = np.argsort(values - whole)
    if missing > 0:
        whole[order[::-1][:missing]] += 1
    elif missing < 0:
        whole[order[:-missing]] -= 1
    return whole.astype(np.intp)
