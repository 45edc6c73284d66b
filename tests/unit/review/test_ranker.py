from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import Decision, Shown
from service.review.ranker import (
    BIAS_PRECISION,
    MIN_DECISIONS,
    PRIOR_PRECISION,
    Ranker,
    ReviewedWords,
    compute_objective,
    extract_reviewed_words,
    fit_offsets,
    round_down_to_batch,
    to_logit,
    to_rank,
)

if TYPE_CHECKING:
    import numpy.typing as npt

Floats = Any
SHOWN = Shown(labels=("O", "B-PER", "I-PER", "B-LOC"), scores=(0.9, 0.2, None, 0.4))


def make_decision(verdict: str, **fields: Any) -> Decision:
    return Decision.model_validate({"id": "1", "reviewer": "ann", "verdict": verdict, **fields})


def words(seed: int, n: int, n_types: int, *, spread: float = 2.0) -> tuple[Floats, Floats, Floats]:
    random = np.random.default_rng(seed)
    types = random.integers(0, n_types, n)
    logits = random.normal(-1, spread, n).clip(to_logit(1), to_logit(0))
    offsets = random.normal(0, 1, n_types)
    wrong = (random.random(n) < 1 / (1 + np.exp(-(logits + offsets[types] - 0.5)))).astype(float)
    return types, logits, wrong


def dense(types: npt.NDArray[np.intp], logits: Floats, wrong: Floats, n_types: int) -> Floats:
    """The same model with a full design matrix and Hessian, by small damped steps until it converges."""
    design = np.hstack([np.eye(n_types)[types], np.ones((len(types), 1))])
    prior = np.append(np.full(n_types, PRIOR_PRECISION), BIAS_PRECISION)
    solution = np.zeros(n_types + 1)
    for _ in range(500):
        p = 1 / (1 + np.exp(-(logits + design @ solution)))
        gradient = design.T @ (p - wrong) + prior * solution
        hessian = (design.T * (p * (1 - p))) @ design + np.diag(prior)
        solution = solution - 0.3 * np.linalg.solve(hessian, gradient)
    return solution


@pytest.mark.parametrize(("n", "n_types"), [(1, 1), (30, 2), (400, 5), (2_000, 12)])
def test_the_fit_is_that_of_a_dense_newton(n: int, n_types: int) -> None:
    types, logits, wrong = words(n, n, n_types)
    offsets, bias = fit_offsets(types, logits, wrong, n_types)
    np.testing.assert_allclose(np.append(offsets, bias), dense(types, logits, wrong, n_types), atol=1e-7)


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 6), st.sampled_from([0.1, 3.0, 8.0]))
@settings(deadline=None, max_examples=60)
def test_no_step_in_any_direction_is_better(seed: int, n: int, n_types: int, spread: float) -> None:
    types, logits, wrong = words(seed, n, n_types, spread=spread)
    offsets, bias = fit_offsets(types, logits, wrong, n_types)
    best = compute_objective(types, logits, wrong, offsets, bias)
    random = np.random.default_rng(seed)
    for _ in range(10):
        step = random.normal(0, 0.01, n_types + 1)
        assert compute_objective(types, logits, wrong, offsets + step[:-1], bias + step[-1]) >= best


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_equal_verdicts_keep_the_fit_finite(answer: float) -> None:
    types, logits, _ = words(3, 500, 4, spread=6.0)
    offsets, bias = fit_offsets(types, logits, np.full(500, answer), 4)
    assert np.isfinite(offsets).all()
    assert abs(bias) < 100


def test_a_type_without_words_stays_at_its_prior() -> None:
    types, logits, wrong = words(1, 200, 2)
    offsets, _ = fit_offsets(types, logits, wrong, 3)
    assert offsets[2] == 0


def test_a_step_that_overshoots_is_damped() -> None:
    # The scores say that all words are wrong, and reviewers the opposite: a full step overflows exp.
    types = np.zeros(200, np.intp)
    logits = np.full(200, to_logit(0.0))
    offsets, bias = fit_offsets(types, logits, np.zeros(200), 1)
    p = 1 / (1 + math.exp(-(logits[0] + offsets[0] + bias)))
    assert p < 0.05
    assert compute_objective(types, logits, np.zeros(200), offsets, bias) < compute_objective(
        types, logits, np.zeros(200), np.zeros(1), 0.0
    )


# -- words of a decision ---------------------------------------------------------------------------------------


def test_ok_says_that_all_scored_words_are_right() -> None:
    reviewed = extract_reviewed_words(make_decision("ok"), SHOWN)
    assert reviewed == ReviewedWords(
        ("O", "PER", "LOC"), (to_logit(0.9), to_logit(0.2), to_logit(0.4)), (False, False, False)
    )


def test_an_error_with_its_words_says_the_others_are_right() -> None:
    reviewed = extract_reviewed_words(make_decision("error", words=[3]), SHOWN)
    assert reviewed is not None
    assert reviewed.wrong == (False, False, True)


def test_corrected_labels_say_which_words_were_wrong() -> None:
    reviewed = extract_reviewed_words(make_decision("error", labels=["O", "B-ORG", "I-ORG", "B-LOC"]), SHOWN)
    assert reviewed is not None
    assert dict(zip(reviewed.types, reviewed.wrong, strict=True)) == {"O": False, "PER": True, "LOC": False}


def test_an_error_without_a_word_is_about_the_worst_one_only() -> None:
    assert extract_reviewed_words(make_decision("error"), SHOWN) == ReviewedWords(("PER",), (to_logit(0.2),), (True,))


@pytest.mark.parametrize(
    "decision",
    [make_decision("unsure"), make_decision("error", withdrawn=True), make_decision("unsure", words=[])],
    ids=["unsure", "withdrawn", "both"],
)
def test_an_unsure_or_withdrawn_decision_teaches_nothing(decision: Decision) -> None:
    assert extract_reviewed_words(decision, SHOWN) is None


def test_a_sentence_without_scored_words_teaches_nothing() -> None:
    assert extract_reviewed_words(make_decision("ok"), Shown(labels=("O",), scores=(None,))) is None


# -- the order ---------------------------------------------------------------------------------------------------------


def review_word(label_type: str, wrong: bool, score: float = 0.3) -> ReviewedWords:
    return ReviewedWords((label_type,), (to_logit(score),), (wrong,))


def test_the_ranker_is_on_after_25_decisions() -> None:
    examples = [review_word("PER", True)] * MIN_DECISIONS
    assert MIN_DECISIONS == 25
    assert not Ranker.refit(examples[:-1]).enabled
    assert Ranker.refit(examples).enabled


def test_decisions_are_used_in_batches() -> None:
    steps = sorted({round_down_to_batch(n) for n in range(500)})
    assert steps[:4] == [0, 25, 30, 35]
    assert all(b - a in (25, max(5, a // 20)) for a, b in pairwise(steps))
    examples = [review_word("PER", True)] * 25 + [review_word("LOC", False)] * 5
    assert Ranker.refit(examples[:29]) == Ranker.refit(examples[:25])
    assert Ranker.refit(examples[:30]) != Ranker.refit(examples[:25])


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40))
@settings(deadline=None)
def test_without_offsets_the_order_is_that_of_the_priority(priorities: list[float]) -> None:
    ranker = Ranker(enabled=True)
    off = Ranker()
    ranked = sorted(priorities, key=lambda p: (ranker.rank(p, [("O", p)]), p))
    assert ranked == sorted(priorities) == sorted(priorities, key=lambda p: off.rank(p, [("O", p)]))


@given(st.floats(1e-6, 1 - 1e-3))
def test_the_rank_is_the_priority_again(score: float) -> None:
    assert to_rank(to_logit(score)) == pytest.approx(score, rel=1e-9)


def test_a_type_that_is_often_wrong_comes_first() -> None:
    examples = [review_word("LOC", True), review_word("PER", False)] * 20
    ranker = Ranker.refit(examples)
    assert ranker.offsets["LOC"] > 0 > ranker.offsets["PER"]
    assert ranker.rank(0.3, [("LOC", 0.3)]) < ranker.rank(0.3, [("ORG", 0.3)]) < ranker.rank(0.3, [("PER", 0.3)])


def test_the_worst_word_of_the_sentence_sets_its_rank() -> None:
    ranker = Ranker(enabled=True, offsets={"LOC": 2.0})
    assert ranker.rank(0.2, [("LOC", 0.3), ("O", 0.2)]) == to_rank(to_logit(0.3) + 2)
    assert ranker.rank(0.2, [("LOC", 0.9), ("O", 1e-9)]) == to_rank(to_logit(1e-9))


def test_a_sentence_without_scored_words_is_last() -> None:
    assert Ranker().rank(None, []) == 1.0
