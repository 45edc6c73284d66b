"""The figures of the study, judged as a stream: each sentence before it teaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from service.scoring.confident import compute_weighted_scores
from service.statistics import RunningStats, compute_priority_weights

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def judge_then_learn(file: Path) -> tuple[NDArray[Any], NDArray[Any], RunningStats]:
    """Priorities and which sentences hold an error, of the kept sentences in file order; and the state at the end."""
    with np.load(file) as data:
        probs, given, corrected = data["probs"].astype(np.float64), data["given"].astype(np.intp), data["corrected"]
        ends = np.cumsum(data["lengths"])
        kept = [slice(start, end) for start, end in zip(ends - data["lengths"], ends, strict=True)]
        kept = [words for words, keep in zip(kept, data["keep"], strict=True) if keep]
    stats = RunningStats.empty(probs.shape[1])
    priorities = []
    for words in kept:
        scores = compute_weighted_scores(probs[words], given[words], compute_priority_weights(stats.get_total()))
        priorities.append(float(scores.min()))
        stats = stats.update(probs[words], given[words], priority=priorities[-1])
    wrong = np.array([bool((given[words] != corrected[words]).any()) for words in kept])
    return np.array(priorities), wrong, stats


def auprc_auroc(scores: NDArray[Any], wrong: NDArray[Any]) -> tuple[float, float]:
    """The trapezoid over (recall, precision) from the first ranked sentence, and the area under ROC."""
    order = np.argsort(scores, kind="stable")
    found = np.cumsum(wrong[order])
    last_of_tie = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    found, ranks = found[last_of_tie], last_of_tie + 1
    recall, false = found / wrong.sum(), np.append(0, (ranks - found) / (~wrong).sum())
    return float(np.trapezoid(found / ranks, recall)), float(np.trapezoid(np.append(0, recall), false))


@pytest.mark.conll
@pytest.mark.parametrize(
    ("file", "auprc", "auroc"), [("minilm_probs.npz", 0.486, 0.929), ("minilm_distilled_probs.npz", 0.540, 0.935)]
)
def test_priority_in_the_stream_finds_errors_as_well_as_the_study(
    conll: Path, file: str, auprc: float, auroc: float
) -> None:
    priorities, wrong, stats = judge_then_learn(conll / file)
    assert (len(wrong), int(wrong.sum())) == (3449, 186)
    assert auprc_auroc(priorities, wrong) == pytest.approx((auprc, auroc), abs=0.003)
    for share in (0.01, 0.05, 0.2):
        chosen = float(np.mean(priorities < stats.histogram.find_cutoff(share)))
        assert share - 0.01 < chosen <= share
