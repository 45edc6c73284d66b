"""cleanlab's answers on nested data, as flat arrays, and the data sets both sides are asked about."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cleanlab.rank
import cleanlab.token_classification.filter
import cleanlab.token_classification.rank
import numpy as np

from service.scoring.flat import Bools, FlatSentences, Floats, Ints, flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True)
class Nested:
    """Sentences as cleanlab takes them."""

    given: list[list[int]]
    probs: list[Floats]

    @property
    def flat(self) -> FlatSentences:
        return flatten(self.given, self.probs)


@contextmanager
def _its_warnings_aside() -> Iterator[None]:
    """It warns of classes with few words; that is its own affair and no error of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def peer_flags(data: Nested, filter_by: str) -> Bools:
    with _its_warnings_aside():
        issues = cleanlab.token_classification.filter.find_label_issues(
            data.given, data.probs, filter_by=filter_by, n_jobs=1
        )
    starts = np.cumsum([0, *map(len, data.given)])
    flags = np.zeros(starts[-1], dtype=np.bool_)
    flags[[starts[sentence] + word for sentence, word in issues]] = True
    return flags


def peer_scores(data: Nested, token_score: str, sentence_score: str = "min", **options: Any) -> tuple[Floats, Floats]:
    """Its scores of words and of sentences, under our names of the token scores."""
    with _its_warnings_aside():
        sentences, words = cleanlab.token_classification.rank.get_label_quality_scores(
            data.given,
            data.probs,
            token_score_method=token_score.replace("-", "_"),
            sentence_score_method=sentence_score,
            sentence_score_kwargs=options,
        )
    return np.concatenate([series.to_numpy() for series in words]), sentences


def peer_adjusted_scores(flat: FlatSentences, token_score: str) -> Floats:
    with _its_warnings_aside():
        scores: Floats = cleanlab.rank.get_label_quality_scores(
            flat.given, flat.probs, method=token_score.replace("-", "_"), adjust_pred_probs=True
        )
    return scores


def _noisy(rng: np.random.Generator, probs: Floats, noise: float) -> Ints:
    """Labels drawn from the probabilities, some of them changed at random."""
    n_words, n_classes = probs.shape
    below: Bools = probs.cumsum(axis=1) < rng.random((n_words, 1)) * probs.sum(axis=1, keepdims=True)
    given: Ints = np.minimum(np.count_nonzero(below, axis=1), n_classes - 1)
    wrong = rng.random(n_words) < noise
    given[wrong] = rng.integers(0, n_classes, np.count_nonzero(wrong))
    return given


def _random(rng: np.random.Generator, n_words: int, n_classes: int) -> tuple[Floats, Ints]:
    probs = rng.dirichlet(np.full(n_classes, rng.choice([0.05, 0.3, 1.0])), n_words)
    return probs, _noisy(rng, probs, 0.2)


def _tied(rng: np.random.Generator, n_words: int, n_classes: int) -> tuple[Floats, Ints]:
    """Few different values: ties between classes of a word, between words, and with the thresholds."""
    probs = rng.multinomial(4, np.full(n_classes, 1 / n_classes), n_words) / 4
    return probs, _noisy(rng, probs, 0.3)


def _one_hot(rng: np.random.Generator, n_words: int, n_classes: int) -> tuple[Floats, Ints]:
    probs = np.eye(n_classes)[rng.integers(0, n_classes, n_words)]
    return probs, _noisy(rng, probs, 0.3)


def _missing_class(rng: np.random.Generator, n_words: int, n_classes: int) -> tuple[Floats, Ints]:
    """Classes the model knows and nobody was given."""
    probs, given = _random(rng, n_words, n_classes)
    absent = rng.choice(n_classes, size=max(1, n_classes // 3), replace=False)
    left = np.setdiff1d(np.arange(n_classes), absent)
    return probs, np.where(np.isin(given, absent), rng.choice(left, n_words), given)


def _imbalanced(rng: np.random.Generator, n_words: int, n_classes: int) -> tuple[Floats, Ints]:
    """Nearly everything is class 0, some classes have one or two words."""
    shares = np.full(n_classes, 0.02)
    shares[0] = 6.0
    probs = rng.dirichlet(shares, n_words)
    return probs, _noisy(rng, probs, 0.03)


def _saturated(rng: np.random.Generator, n_words: int, n_classes: int) -> tuple[Floats, Ints]:
    """As a trained network answers: nearly all mass on one class."""
    logits = rng.normal(0, 1, (n_words, n_classes))
    logits[np.arange(n_words), rng.integers(0, n_classes, n_words)] += rng.gamma(4, 3, n_words)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = weights / weights.sum(axis=1, keepdims=True)
    return probs, _noisy(rng, probs, 0.05)


KINDS: dict[str, Callable[[np.random.Generator, int, int], tuple[Floats, Ints]]] = {
    "random": _random,
    "tied": _tied,
    "one-hot": _one_hot,
    "missing-class": _missing_class,
    "imbalanced": _imbalanced,
    "saturated": _saturated,
}


def data_set(kind: str, seed: int) -> Nested:
    """A seeded data set of 2 to 20 classes and up to some hundred sentences."""
    rng = np.random.default_rng([seed, *kind.encode()])
    n_classes = int(rng.choice([2, 3, 5, 9, 20]))
    lengths = rng.integers(1, 30, int(rng.choice([3, 20, 120])))
    probs, given = KINDS[kind](rng, int(lengths.sum()), n_classes)
    if len(np.unique(given)) < 2:  # the peer refuses a single class
        given[0] = (given[0] + 1) % n_classes
    cuts = np.cumsum(lengths)[:-1]
    return Nested([part.tolist() for part in np.split(given, cuts)], np.split(probs, cuts))
