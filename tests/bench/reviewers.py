"""Simulated reviewers on the sample: how many of the first N they are shown are wrong, with the ranker and without.

All sentences go to the queue, reviewers decide in small batches by the truth that stands beside the sample, and the
queue follows. The second set has the truth with errors of one kind only, rare and systematic: where a ranker can help.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from service.contracts import DatasetSettings, LabelledSentence
from service.errors import LabelwatchError
from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.labels import UNSCORED
from service.review.queue.queue import QueueFilter, ReviewQueue
from tests.support.review_queue import (
    NOW,
    MemoryLog,
    QueueHarness,
    decide_item,
    make_review_output,
    make_settings_output,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.contracts import Assessment
    from service.inference.classifier import WordProbs

FOLDER = Path("models/sample")
CUTOFFS = (25, 50, 100, 150)
BATCH_SIZE = 5
SEED = 7
CONFUSED_SHARE = 0.3


def run() -> list[dict[str, Any]]:
    given, truth = (list(read_sentences(FOLDER / name)) for name in ("sample.tsv", "sample.truth.tsv"))
    folder = ModelFolder.load(find_default_model())
    answers = Classifier(folder, threads=1).infer([sentence.tokens for sentence in given])
    probs = [answer for answer in answers if not isinstance(answer, LabelwatchError)]
    systematic = [_confuse_labels(sentence, np.random.default_rng((SEED, n))) for n, sentence in enumerate(truth)]
    return [
        _compare_rankers(
            "reviewers_sample", "the sample's planted errors", assess_sentences(folder, given, probs), truth
        ),
        _compare_rankers(
            "reviewers_systematic",
            "MISC called ORG, else the truth",
            assess_sentences(folder, systematic, probs),
            truth,
        ),
    ]


def _confuse_labels(sentence: LabelledSentence, random: np.random.Generator) -> LabelledSentence:
    if random.random() >= CONFUSED_SHARE:
        return sentence
    return sentence.model_copy(update={"labels": tuple(label.replace("MISC", "ORG") for label in sentence.labels)})


def assess_sentences(
    folder: ModelFolder, sentences: Sequence[LabelledSentence], probs: Sequence[WordProbs]
) -> list[Assessment]:
    """As a stream would: each by those before it. All go to review."""
    judge = Judge(folder, DatasetSettings())
    stats = judge.create_empty_stats()
    found = []
    for number, (sentence, words) in enumerate(zip(sentences, probs, strict=True)):
        seen = judge.observe(sentence.model_copy(update={"id": str(number)}), words)
        by = judge.build_threshold_set(stats)
        pairs = zip(sentence.labels, seen.all_given.tolist(), strict=True)
        weights = {label: float(by.weights[k]) for label, k in pairs if k != UNSCORED}
        said = judge.assess(seen, by, reason="flagged").model_copy(update={"weights": weights, "scored_at": NOW})
        stats = judge.learn(seen, stats, priority=said.priority)
        found.append(said)
    return found


def simulate_review(said: Sequence[Assessment], truth: Sequence[LabelledSentence], *, ranker: str) -> list[bool]:
    """Whether each sentence that reviewers were shown was wrong, from the first to the last."""
    harness = QueueHarness(MemoryLog(), ReviewQueue(":memory:"))
    right = {one.id or "": other.labels for one, other in zip(said, truth, strict=True)}
    shown: list[bool] = []
    try:
        harness.write(make_settings_output(name="default", ranker=ranker), *(make_review_output(one) for one in said))
        while items := harness.queue.get_page(QueueFilter(), limit=BATCH_SIZE, now=NOW).items:
            decisions = []
            for item in items:
                wrong = [place for place, label in enumerate(right[item.id]) if label != item.labels[place]]
                shown.append(bool(wrong))
                decisions.append(decide_item(item, "error", words=wrong) if wrong else decide_item(item, "ok"))
            harness.write(*decisions)
        return shown
    finally:
        harness.close()


def average_precision(shown: Sequence[bool]) -> float:
    hits = np.flatnonzero(shown)
    return float(np.mean(np.arange(1, len(hits) + 1) / (hits + 1))) if len(hits) else 0.0


def _compare_rankers(
    name: str, what: str, said: Sequence[Assessment], truth: Sequence[LabelledSentence]
) -> dict[str, Any]:
    shown = {ranker: simulate_review(said, truth, ranker=ranker) for ranker in ("auto", "off")}
    first = {
        ranker: {str(n): sum(answers[:n]) / n for n in CUTOFFS if n <= len(answers)}
        for ranker, answers in shown.items()
    }
    averages = {ranker: average_precision(answers) for ranker, answers in shown.items()}
    told = ", ".join(f"{first['auto'][n]:.2f}/{first['off'][n]:.2f} of {n}" for n in first["auto"])
    return {
        "name": name,
        "ratio": averages["auto"] / averages["off"],
        "detail": {
            "what": f"{what}: wrong ones with/without the ranker {told}; "
            f"average precision {averages['auto']:.3f}/{averages['off']:.3f}",
            "sentences": len(said),
            "wrong": sum(shown["off"]),
            "precision_first": first,
            "average_precision": averages,
        },
    }
