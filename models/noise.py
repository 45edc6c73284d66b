"""Corrupts labels as real annotators do: the paper's noise matrix, applied to whole entities.

F1 does not show how well a model finds wrong labels; detection on a corrupted dev set does, without touching the test set.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
from corpus import LABELS, Sentence, entities

from service.evaluation.metrics import average_precision

if TYPE_CHECKING:
    from collections.abc import Sequence

# Share of entities (by true type) that annotators gave another type or none: the B- rows of the paper's appendix.
RETYPE_RATES = {
    "MISC": {"": 0.0539, "ORG": 0.0014, "LOC": 0.0249},
    "PER": {"": 0.0049, "MISC": 0.0012, "ORG": 0.0006, "LOC": 0.0019},
    "ORG": {"": 0.0082, "MISC": 0.0117, "PER": 0.0018, "LOC": 0.0187},
    "LOC": {"": 0.0091, "MISC": 0.0049, "PER": 0.0018, "ORG": 0.0043},
}
# Share of entities of several words that lost their end: the I- rows' O column.
TRUNCATION_RATES = {"MISC": 0.10, "PER": 0.0017, "ORG": 0.0318, "LOC": 0.027}
SPURIOUS_RATES = {"MISC": 0.0003, "PER": 0.0001, "ORG": 0.0001}


def corrupt(sentences: Sequence[Sentence], seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    return [_corrupt_sentence(sentence, rng) for sentence in sentences]


def _corrupt_sentence(sentence: Sentence, rng: random.Random) -> list[int]:
    labels = list(sentence.labels)
    for start, end, kind in entities(sentence):
        draw = rng.random()
        for other, share in RETYPE_RATES[kind].items():
            if draw < share:
                names = [f"B-{other}", f"I-{other}"] if other else ["O", "O"]
                labels[start:end] = [LABELS.index(names[min(i, 1)]) for i in range(end - start)]
                break
            draw -= share
        else:
            if end - start > 1 and rng.random() < TRUNCATION_RATES[kind]:
                labels[end - 1] = 0
    for index, label in enumerate(sentence.labels):
        if label == 0 and sentence.words[index][:1].isalpha():
            draw = rng.random()
            for kind, share in SPURIOUS_RATES.items():
                if draw < share:
                    labels[index] = LABELS.index(f"B-{kind}")
                    break
                draw -= share
    return labels


def detection(sentences: Sequence[Sentence], probabilities: Sequence[np.ndarray], *, seeds: int = 5) -> float:
    """Mean average precision of the worst token at finding planted errors, over several corruptions."""
    found = []
    for seed in range(seeds):
        noisy = corrupt(sentences, seed)
        wrong = np.array([list(s.labels) != n for s, n in zip(sentences, noisy, strict=True)])
        worst = np.array([p[np.arange(len(n)), n].min() for p, n in zip(probabilities, noisy, strict=True)])
        found.append(average_precision(worst, wrong))
    return float(np.mean(found))
