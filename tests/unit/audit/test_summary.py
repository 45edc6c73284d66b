from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.audit.summary import LOG_ODDS_EDGES, AuditSummary, find_bin
from tests.unit.audit.fake_model import CLASSES, assess_sentence, make_judge


@given(st.floats(0, 1), st.floats(0, 1))
@settings(deadline=None, max_examples=100)
def test_bins_keep_the_order_of_scores(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert 0 <= find_bin(low) <= find_bin(high) <= len(LOG_ODDS_EDGES)


def test_bins_stretch_towards_both_ends() -> None:
    bins = [find_bin(score) for score in (0.0, 1e-9, 0.0002, 0.002, 0.02, 0.2, 0.5, 0.8, 0.98, 0.998, 0.9998, 1.0)]
    assert bins == sorted(bins)
    assert len(set(bins)) == len(bins) - 1
    assert bins[0] == bins[1] == 0
    assert bins[-1] == len(LOG_ODDS_EDGES)


def test_counts() -> None:
    judge = make_judge()
    summary = AuditSummary(judge.classes)
    for tokens, labels, read in (
        ("Ann saw Oslo", "B-PER O O", "B-PER O B-LOC"),
        ("Bo Lee ran", "B-LOC I-PER O", "B-PER I-PER O"),
        ("it \u200b rained", "O O O", "O ? O"),
        ("Kay", "O", "B-PER"),
    ):
        summary.add(*assess_sentence(tokens, labels, read, judge=judge))
    assert (summary.sentences, summary.words, summary.scored_words) == (4, 10, 9)
    assert (summary.flagged_sentences, summary.flagged_words) == (3, 3)
    assert summary.unscored == {"no subword": 1}
    assert summary.words_by_class == {"O": 6, "B-PER": 1, "I-PER": 1, "B-LOC": 1, "I-LOC": 0}
    assert summary.flagged_by_class == {"O": 2, "B-PER": 0, "I-PER": 0, "B-LOC": 1, "I-LOC": 0}
    assert [(c.given, c.suggested, c.words) for c in summary.list_confusions()] == [
        ("B-LOC", "B-PER", 1),
        ("O", "B-LOC", 1),
        ("O", "B-PER", 1),
    ]
    assert summary.list_confusions(1)[0].share == 1.0
    np.testing.assert_allclose(summary.noise_shares.sum(axis=1), [1, 1, 1, 1, 0])
    assert summary.kinds["missed"] == 2
    assert summary.scores.total.sum() == summary.priorities.total.sum() == 4
    assert summary.scores.flagged.sum() == 3
    assert set(summary.thresholds) == set(CLASSES)


def test_examples_are_the_surest() -> None:
    judge = make_judge()
    summary = AuditSummary(judge.classes)
    for sure in (0.8, 0.95, 0.9):
        summary.add(*assess_sentence("Ann", "O", "B-PER", judge=judge, sure=sure, fields={"id": str(sure)}))
    assert summary.examples["missed"].assessment.id == "0.95"


@pytest.mark.parametrize("most", [1, 3, 10, 100])
def test_the_worst_are_kept_and_of_equals_the_first(most: int) -> None:
    judge = make_judge()
    summary = AuditSummary(judge.classes, max_worst=most)
    rng = np.random.default_rng(5)
    assessments = []
    for number, sure in enumerate(rng.choice([0.6, 0.7, 0.8, 0.9], 30)):
        assessment, observation = assess_sentence(
            "Ann", "O", "B-PER", judge=judge, sure=sure, fields={"id": str(number)}
        )
        summary.add(assessment, observation)
        assessments.append(assessment)
    assert summary.worst == sorted(assessments, key=lambda assessment: assessment.priority or 0)[:most]


def test_scores_beyond_zero_and_one_are_counted_apart() -> None:
    judge = make_judge(method="bad-token-counts")
    summary = AuditSummary(judge.classes)
    summary.add(*assess_sentence("Ann saw Bo", "O O O", "B-PER O B-PER", judge=judge))
    assert summary.scores.out_of_range == 1
    assert summary.scores.total.sum() == 0
    assert summary.priorities.total.sum() == 1


def test_a_sentence_without_any_score() -> None:
    judge = make_judge()
    summary = AuditSummary(judge.classes)
    summary.add(*assess_sentence("\u200b", "O", "?", judge=judge))
    assert (summary.sentences, summary.scored_words, summary.worst) == (1, 0, [])
