"""Reviewers whose answers the queue follows: it finds errors of one type sooner, and loses nothing where there are none."""

from __future__ import annotations

import numpy as np
import pytest

from service.contracts import Assessment, LabelledSentence
from service.review.ranker import MIN_DECISIONS
from tests.bench.reviewers import average_precision, simulate_review
from tests.support.review_queue import TYPES, make_assessment


def sentences(seed: int, *, bad: float, else_bad: float) -> tuple[list[Assessment], list[LabelledSentence]]:
    """One doubtful word each, with a score that says nothing of its type; LOC is wrong as often as `bad` says."""
    random = np.random.default_rng(seed)
    said, truth = [], []
    for number in range(150):
        kind = TYPES[int(random.integers(0, 3))]
        p = float(random.uniform(0.01, 0.6))
        labels = ("O", f"B-{kind}")
        wrong = random.random() < (bad if kind == "LOC" else else_bad)
        said.append(make_assessment(str(number), p=(0.99, p), labels=labels, suggested="O"))
        truth.append(LabelledSentence(tokens=("a", "b"), labels=("O", "O") if wrong else labels, id=str(number)))
    return said, truth


@pytest.mark.parametrize("seed", [1, 2])
def test_errors_of_one_type_are_found_sooner(seed: int) -> None:
    said, truth = sentences(seed, bad=0.6, else_bad=0.05)
    ranked, plain = (simulate_review(said, truth, ranker=ranker) for ranker in ("auto", "off"))
    assert sum(ranked) == sum(plain)
    assert ranked[:MIN_DECISIONS] == plain[:MIN_DECISIONS]
    assert average_precision(ranked) > 1.1 * average_precision(plain)


def test_where_types_are_alike_little_changes() -> None:
    said, truth = sentences(3, bad=0.2, else_bad=0.2)
    ranked, plain = (simulate_review(said, truth, ranker=ranker) for ranker in ("auto", "off"))
    assert average_precision(ranked) == pytest.approx(average_precision(plain), rel=0.15)
