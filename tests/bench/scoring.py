"""The scoring core against cleanlab, on the same nested sentences and for the same answers.

Both sides start from what a caller has: a list of labels and a table of probabilities per sentence. Both end with
flagged words and a score per sentence. Before anything is timed the answers are compared (one sentence at a time only
the scores: cleanlab takes its thresholds from that sentence alone, we take given ones).
"""

from __future__ import annotations

import gc
import statistics
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cleanlab
import numpy as np
from cleanlab.token_classification.filter import find_label_issues
from cleanlab.token_classification.rank import get_label_quality_scores

from service.scoring.confident import compute_thresholds, flag_sentence, flag_words, sum_by_class
from service.scoring.flat import Bools, Floats, flatten, segment_min
from service.scoring.token import self_confidence

if TYPE_CHECKING:
    from collections.abc import Callable

N_SENTENCES = 20_000
N_CLASSES = 9
MEAN_LENGTH = 15.3
ROUNDS = 7
N_ONE_BY_ONE = 200
SEED = 2003


@dataclass(frozen=True)
class NestedSentences:
    """Nested, as both sides take them."""

    given: list[list[int]]
    probs: list[Floats]

    @property
    def n_words(self) -> int:
        return sum(map(len, self.given))


def make_sentences(n_sentences: int, seed: int = SEED) -> NestedSentences:
    """Words as a trained tagger sees them: five in six are class 0, nearly all are near certain, few labels differ."""
    rng = np.random.default_rng(seed)
    lengths = 1 + rng.poisson(MEAN_LENGTH - 1, n_sentences)
    n_words = int(lengths.sum())
    words = np.arange(n_words)
    true = np.where(rng.random(n_words) < 5 / 6, 0, rng.integers(1, N_CLASSES, n_words))
    predicted = np.where(rng.random(n_words) < 0.97, true, rng.integers(0, N_CLASSES, n_words))
    logits = rng.normal(0, 1, (n_words, N_CLASSES))
    logits[words, predicted] += rng.gamma(6, 1.7, n_words)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs = weights / weights.sum(axis=1, keepdims=True)
    given = np.where(rng.random(n_words) < 0.98, true, rng.integers(0, N_CLASSES, n_words))
    cuts = np.cumsum(lengths)[:-1]
    return NestedSentences([part.tolist() for part in np.split(given, cuts)], np.split(probs, cuts))


def score_all(data: NestedSentences) -> tuple[Bools, Floats]:
    flat = flatten(data.given, data.probs)
    limits = compute_thresholds(*sum_by_class(flat.probs, flat.given))
    flags = flag_words(flat.probs, flat.given, limits)
    return flags, segment_min(self_confidence(flat.probs, flat.given), flat)


def run_cleanlab(given: list[list[int]], probs: list[Floats]) -> tuple[list[tuple[int, int]], Floats]:
    """Its rank and its filter; of its filters the one that gives our flags, which is not slower than its default."""
    scores, _ = get_label_quality_scores(given, probs)
    return find_label_issues(given, probs, filter_by="confident_learning", n_jobs=1), scores


def run(n_sentences: int = N_SENTENCES, one_by_one: int = N_ONE_BY_ONE, rounds: int = ROUNDS) -> list[dict[str, Any]]:
    """Both ratios, cleanlab's time over ours."""
    data = make_sentences(n_sentences)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cleanlab warns of classes with few words
        return [_compare_all_at_once(data, rounds), _compare_one_at_a_time(data, one_by_one, rounds)]


def _compare_all_at_once(data: NestedSentences, rounds: int) -> dict[str, Any]:
    flags, scores = score_all(data)
    issues, its_scores = run_cleanlab(data.given, data.probs)
    starts = np.cumsum([0, *map(len, data.given)])
    its_flags = np.zeros_like(flags)
    its_flags[[starts[sentence] + word for sentence, word in issues]] = True
    if not (np.array_equal(flags, its_flags) and np.array_equal(scores, its_scores)):
        raise RuntimeError("the two sides disagree: their times can't be compared")
    return _measure_ratio(
        "scoring_vs_cleanlab",
        lambda: run_cleanlab(data.given, data.probs),
        lambda: score_all(data),
        rounds,
        {
            "what": f"{len(data.given):,} sentences at once: flags and worst-token from nested input, checked",
            "sentences": len(data.given),
            "words": data.n_words,
            "flagged": int(flags.sum()),
        },
    )


def _compare_one_at_a_time(data: NestedSentences, count: int, rounds: int) -> dict[str, Any]:
    """Sentences one by one; cleanlab refuses one whose labels are all one class other than 0, so those are left out."""
    pairs = [(y, p) for y, p in zip(data.given, data.probs, strict=True) if len(set(y)) > 1 or y[0] == 0][:count]
    flat = flatten(data.given, data.probs)
    limits = compute_thresholds(*sum_by_class(flat.probs, flat.given))

    def ours() -> list[float]:
        scores = []
        for given, probs in pairs:
            one = flatten([given], [probs])
            scores.append(flag_sentence(one.probs, one.given, limits).score)
        return scores

    def its() -> list[float]:
        return [float(run_cleanlab([given], [probs])[1][0]) for given, probs in pairs]

    if ours() != its():
        raise RuntimeError("the two sides disagree: their times can't be compared")
    return _measure_ratio(
        "scoring_one_vs_cleanlab",
        its,
        ours,
        rounds,
        {
            "what": f"{len(pairs):,} sentences one at a time: flags (ours by given thresholds) and worst-token, checked",
            "sentences": len(pairs),
            "words": sum(len(given) for given, _ in pairs),
        },
    )


def _measure_ratio(
    name: str, its: Callable[[], object], ours: Callable[[], object], rounds: int, detail: dict[str, int | str]
) -> dict[str, Any]:
    """Both in turn, each first in every other round; both ran once before, so nothing is cold."""
    times: dict[str, list[float]] = {"cleanlab": [], "ours": []}
    for turn in range(rounds):
        sides = [("cleanlab", its), ("ours", ours)]
        for side, work in sides if turn % 2 else reversed(sides):
            gc.collect()
            start = time.perf_counter()
            work()
            times[side].append(time.perf_counter() - start)
    medians = {side: statistics.median(values) for side, values in times.items()}
    return {
        "name": name,
        "ratio": medians["cleanlab"] / medians["ours"],
        "detail": {
            "peer": f"cleanlab {cleanlab.__version__}: token rank + filter (confident_learning, n_jobs=1)",
            **detail,
            "classes": N_CLASSES,
            "threads": 1,
            "rounds": rounds,
            "ratios": [slow / fast for slow, fast in zip(times["cleanlab"], times["ours"], strict=True)],
            **{
                f"{side}_ms": {"median": medians[side] * 1e3, "min": min(values) * 1e3, "max": max(values) * 1e3}
                for side, values in times.items()
            },
        },
    }
