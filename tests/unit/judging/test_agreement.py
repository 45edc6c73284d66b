"""The given spans of a sentence compared with those of the model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from service.contracts import DatasetSettings, LabelledSentence
from service.inference.heads.results import WordProbs
from service.judging.agreement import learn_annotators
from service.judging.class_source import ExternalClasses
from service.judging.judge import Judge
from service.judging.types import Observation, StatsUpdate
from service.statistics.annotators.sums import SpanAgreement, SpanSums

CLASSES = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG")
ARRIVED_AT = datetime(2024, 5, 31, tzinfo=UTC)


def build_judge(**settings: Any) -> Judge:
    return Judge(ExternalClasses.from_labels(CLASSES), DatasetSettings.model_validate(settings))


def observe(judge: Judge, given: str, found: str, *, unscored: tuple[int, ...] = (), **fields: Any) -> Observation:
    """`found`: the model's label of each word, with a probability of .8."""
    names, labels = found.split(), tuple(given.split())
    probs = np.full((len(names), len(CLASSES)), 0.05)
    probs[np.arange(len(names)), [CLASSES.index(name) for name in names]] = 0.8
    scored = np.array([index not in unscored for index in range(len(names))])
    words = WordProbs(probs, scored, 0, dict.fromkeys(unscored, "no subwords"))
    return judge.observe(LabelledSentence(tokens=("w",) * len(names), labels=labels, **fields), words)


@pytest.mark.parametrize(
    ("given", "found", "types", "confusions"),
    [
        ("O O", "O O", {}, ()),
        ("B-PER I-PER O", "B-PER I-PER O", {"PER": (1, 1, 1)}, ()),
        ("B-PER B-ORG O", "B-PER O O", {"PER": (1, 1, 1), "ORG": (1, 0, 0)}, (("ORG", "O"),)),
        ("O B-PER", "B-PER B-PER", {"PER": (1, 2, 1)}, (("O", "PER"),)),
        ("B-PER I-PER", "B-PER O", {"PER": (1, 1, 0)}, (("PER", "PER"),)),
        ("B-PER", "B-ORG", {"PER": (1, 0, 0), "ORG": (0, 1, 0)}, (("PER", "ORG"),)),
        ("O I-PER", "O I-PER", {"PER": (1, 1, 1)}, ()),  # breaks the scheme, but both mean the same
    ],
)
def test_spans_are_compared(
    given: str, found: str, types: dict[str, tuple[int, int, int]], confusions: tuple[tuple[str, str], ...]
) -> None:
    judge = build_judge()
    agreement = judge.span_comparer.compare(observe(judge, given, found), {"PER", "ORG"})
    assert agreement == SpanAgreement({name: SpanSums(*sums) for name, sums in types.items()}, confusions)


def test_a_type_counts_from_the_first_sentence_that_was_given_it() -> None:
    judge = build_judge()
    known = {"PER"}
    unused = judge.span_comparer.compare(observe(judge, "B-PER O", "B-PER B-ORG"), known)
    assert unused == SpanAgreement({"PER": SpanSums(1, 1, 1)})
    assert known == {"PER"}
    judge.span_comparer.compare(observe(judge, "B-ORG O", "B-ORG O"), known)
    assert known == {"PER", "ORG"}
    used = judge.span_comparer.compare(observe(judge, "B-PER O", "B-PER B-ORG"), known)
    assert used.types == {"PER": SpanSums(1, 1, 1), "ORG": SpanSums(0, 1, 0)}


def test_with_a_label_set_its_types_always_count() -> None:
    judge = build_judge(label_set=["PER", "ORG"])
    agreement = judge.span_comparer.compare(observe(judge, "O O", "B-PER B-ORG"), set())
    assert agreement.types == {"PER": SpanSums(0, 1, 0), "ORG": SpanSums(0, 1, 0)}


def test_words_without_probabilities_are_outside_on_both_sides() -> None:
    judge = build_judge()
    observation = observe(judge, "B-PER I-PER B-ORG", "B-PER I-PER O", unscored=(1,))
    agreement = judge.span_comparer.compare(observation, {"PER", "ORG"})
    assert agreement.types == {"PER": SpanSums(1, 1, 1), "ORG": SpanSums(1, 0, 0)}
    nothing = observe(judge, "B-PER", "B-ORG", unscored=(0,))
    assert judge.span_comparer.compare(nothing, set()) == SpanAgreement()


def test_annotators_beyond_the_limit_are_counted_together() -> None:
    judge = build_judge()
    updates = [
        StatsUpdate(observe(judge, "B-PER O", "B-PER O", annotator=name), 0.5, ARRIVED_AT)
        for name in ("kim", "lee", "mia", "kim", "mia", None, "(other)")
    ]
    learned = learn_annotators(judge.span_comparer, updates, {}, max_annotators=2)
    assert {name: sums.totals.sentences for name, sums in learned.items()} == {"kim": 2, "lee": 1, "(other)": 3}
    assert learned["kim"].weeks.keys() == {"2024-05-27"}
