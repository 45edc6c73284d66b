"""Kappa over words equals that of scikit-learn, which comes with cleanlab."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from service.review.agreement import compare_answers, measure_agreement

TYPES = ("O", "O", "O", "O", "B-PER", "B-LOC", "B-ORG")


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_that_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    sentences = [[str(label) for label in random.choice(TYPES, int(random.integers(3, 20)))] for _ in range(30)]
    answers = [
        (labels, [str(random.choice(TYPES)) if random.random() < 0.15 else label for label in labels])
        for labels in sentences
    ]
    figures = measure_agreement([[compare_answers(*pair) for pair in answers]], draws=0)
    first, second = ([label.removeprefix("B-") for pair in answers for label in pair[side]] for side in (0, 1))
    assert figures.kappa == pytest.approx(cohen_kappa_score(first, second))
