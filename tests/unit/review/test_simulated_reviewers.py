"""Simulated reviewers: the ranker finds errors of one type sooner, and costs little where all types are alike."""

from __future__ import annotations

import numpy as np
import pytest

from service.contracts import Assessment, LabelledSentence
from service.review.ranker import MIN_DECISIONS
from tests.bench.reviewers import average_precision, simulate_review
from tests.support.review_queue import TYPES, make_assessment


def sentences(seed: int, *, bad: float, else_bad: float) -> tuple[list[Assessment], list[LabelledSentence]]:
    """Sentences with one doubtful word. Scores do not depend on the type; LOC is wrong at the rate `bad`."""
    random = np.random.default_rng(seed)
    assessments, truth = [], []
    for number in range(150):
        kind = TYPES[int(random.integers(0, 3))]
        p = float(random.uniform(0.01, 0.6))
        labels = ("O", f"B-{kind}")
        wrong = random.random() < (bad if kind == "LOC" else else_bad)
        assessments.append(make_assessment(str(number), p=(0.99, p), labels=labels, suggested="O"))
        truth.append(LabelledSentence(tokens=("a", "b"), labels=("O", "O") if wrong else labels, id=str(number)))
    return assessments, truth


@pytest.mark.parametrize("seed", [1, 2])
def test_errors_of_one_type_are_found_sooner(seed: int) -> None:
    assessments, truth = sentences(seed, bad=0.6, else_bad=0.05)
    ranked, plain = (simulate_review(assessments, truth, ranker=ranker) for ranker in ("auto", "off"))
    assert sum(ranked) == sum(plain)
    assert ranked[:MIN_DECISIONS] == plain[:MIN_DECISIONS]
    assert average_precision(ranked) > 1.1 * average_precision(plain)


@pytest.mark.parametrize("seed", [1, 2])
def test_errors_of_one_pair_are_found_sooner_than_by_types(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOC is wrong where ORG is suggested, and right where nothing is: its type alone says little."""
    random = np.random.default_rng(seed)
    assessments, truth = [], []
    for number in range(150):
        suggested = ("B-ORG", "O")[int(random.integers(0, 2))]
        wrong = random.random() < (0.6 if suggested == "B-ORG" else 0.05)
        p = (0.99, float(random.uniform(0.01, 0.6)))
        assessments.append(make_assessment(str(number), p=p, labels=("O", "B-LOC"), suggested=suggested))
        labels = ("O", suggested if wrong else "B-LOC")
        truth.append(LabelledSentence(tokens=("a", "b"), labels=labels, id=str(number)))
    with_pairs = average_precision(simulate_review(assessments, truth, ranker="auto"))
    monkeypatch.setattr("service.review.ranker.PAIR_PRECISION", 1e9)  # pairs can't learn anything
    by_types = average_precision(simulate_review(assessments, truth, ranker="auto"))
    assert with_pairs > 1.1 * by_types


def test_little_changes_where_all_types_are_alike() -> None:
    assessments, truth = sentences(3, bad=0.2, else_bad=0.2)
    ranked, plain = (simulate_review(assessments, truth, ranker=ranker) for ranker in ("auto", "off"))
    assert average_precision(ranked) == pytest.approx(average_precision(plain), rel=0.15)
