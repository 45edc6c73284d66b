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
from service.inference.model.default import default_model
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.labels import UNSCORED
from service.review.queue.queue import Queue, QueueFilter
from tests.review_desk import NOW, Desk, MemoryLog, decided, review, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.contracts import Assessment
    from service.inference.classifier import WordProbs

FOLDER = Path("models/sample")
FIRST = (25, 50, 100, 150)
BATCH = 5
SEED = 7
SHARE = 0.3


def run() -> list[dict[str, Any]]:
    given, truth = (list(read_sentences(FOLDER / name)) for name in ("sample.tsv", "sample.truth.tsv"))
    folder = ModelFolder.load(default_model())
    answers = Classifier(folder, threads=1).infer([sentence.tokens for sentence in given])
    probs = [answer for answer in answers if not isinstance(answer, LabelwatchError)]
    systematic = [_confused(sentence, np.random.default_rng((SEED, n))) for n, sentence in enumerate(truth)]
    return [
        _compared("reviewers_sample", "the sample's planted errors", judged(folder, given, probs), truth),
        _compared("reviewers_systematic", "MISC called ORG, else the truth", judged(folder, systematic, probs), truth),
    ]


def _confused(sentence: LabelledSentence, random: np.random.Generator) -> LabelledSentence:
    if random.random() >= SHARE:
        return sentence
    return sentence.model_copy(update={"labels": tuple(label.replace("MISC", "ORG") for label in sentence.labels)})


def judged(folder: ModelFolder, sentences: Sequence[LabelledSentence], probs: Sequence[WordProbs]) -> list[Assessment]:
    """As a stream would: each by those before it. All go to review."""
    judge = Judge(folder, DatasetSettings())
    stats = judge.empty()
    found = []
    for number, (sentence, words) in enumerate(zip(sentences, probs, strict=True)):
        seen = judge.observe(sentence.model_copy(update={"id": str(number)}), words)
        by = judge.yardstick(stats)
        pairs = zip(sentence.labels, seen.classes.tolist(), strict=True)
        weights = {label: float(by.weights[k]) for label, k in pairs if k != UNSCORED}
        said = judge.judge(seen, by, reason="flagged").model_copy(update={"weights": weights, "scored_at": NOW})
        stats = judge.learn(seen, stats, priority=said.priority)
        found.append(said)
    return found


def found_in_order(said: Sequence[Assessment], truth: Sequence[LabelledSentence], *, ranker: str) -> list[bool]:
    """Whether each sentence that reviewers were shown was wrong, from the first to the last."""
    desk = Desk(MemoryLog(), Queue(":memory:"))
    right = {one.id or "": other.labels for one, other in zip(said, truth, strict=True)}
    shown: list[bool] = []
    try:
        desk.write(settings(name="default", ranker=ranker), *(review(one) for one in said))
        while items := desk.queue.page(QueueFilter(), limit=BATCH, now=NOW).items:
            decisions = []
            for item in items:
                wrong = [place for place, label in enumerate(right[item.id]) if label != item.labels[place]]
                shown.append(bool(wrong))
                decisions.append(decided(item, "error", words=wrong) if wrong else decided(item, "ok"))
            desk.write(*decisions)
        return shown
    finally:
        desk.close()


def average_precision(shown: Sequence[bool]) -> float:
    hits = np.flatnonzero(shown)
    return float(np.mean(np.arange(1, len(hits) + 1) / (hits + 1))) if len(hits) else 0.0


def _compared(name: str, what: str, said: Sequence[Assessment], truth: Sequence[LabelledSentence]) -> dict[str, Any]:
    shown = {ranker: found_in_order(said, truth, ranker=ranker) for ranker in ("auto", "off")}
    first = {
        ranker: {str(n): sum(answers[:n]) / n for n in FIRST if n <= len(answers)} for ranker, answers in shown.items()
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
