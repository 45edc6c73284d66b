from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import Decision, Flag, Shown
from service.review.ranker import (
    BIAS_PRECISION,
    MIN_DECISIONS,
    PAIR_PRECISION,
    PRIOR_PRECISION,
    Offsets,
    Ranker,
    ReviewedWords,
    WordArrays,
    WordKind,
    compute_objective,
    extract_reviewed_words,
    fit_offsets,
    round_down_to_batch,
    to_logit,
    to_rank,
)

Floats = Any
DOUBTFUL = Flag(index=1, token="Oslo", given="B-PER", suggested="B-ORG", p_given=0.2, p_suggested=0.7)
SHOWN = Shown(labels=("O", "B-PER", "I-PER", "B-LOC"), scores=(0.9, 0.2, None, 0.4), doubtful=(DOUBTFUL,))


def make_decision(verdict: str, **fields: Any) -> Decision:
    return Decision.model_validate({"id": "1", "reviewer": "ann", "verdict": verdict, **fields})


def words(seed: int, n: int, n_types: int, *, spread: float = 2.0) -> WordArrays:
    """Words of random types. One in three was shown as doubtful, with one of three suggested types."""
    random = np.random.default_rng(seed)
    types = random.integers(0, n_types, n)
    pairs = np.where(random.random(n) < 1 / 3, 3 * types + random.integers(0, 3, n), 3 * n_types)
    logits = random.normal(-1, spread, n).clip(to_logit(1), to_logit(0))
    offsets = random.normal(0, 1, n_types)[types] + np.append(random.normal(0, 1, 3 * n_types), 0)[pairs]
    wrong = (random.random(n) < 1 / (1 + np.exp(-(logits + offsets - 0.5)))).astype(float)
    return WordArrays(types, pairs, logits, wrong, np.repeat(np.arange(n_types), 3), n_types)


def join(offsets: Offsets) -> Floats:
    return np.concatenate([offsets.types, offsets.pairs, [offsets.bias]])


def split(solution: Floats, data: WordArrays) -> Offsets:
    return Offsets(solution[: data.n_types], solution[data.n_types : -1], float(solution[-1]))


def dense(data: WordArrays) -> Floats:
    """The same model with a full design matrix and Hessian, by small damped steps until it converges."""
    pair_columns = np.eye(data.n_pairs + 1)[data.pairs][:, :-1]
    design = np.hstack([np.eye(data.n_types)[data.types], pair_columns, np.ones((len(data.types), 1))])
    prior = np.concatenate(
        [np.full(data.n_types, PRIOR_PRECISION), np.full(data.n_pairs, PAIR_PRECISION), [BIAS_PRECISION]]
    )
    solution = np.zeros(len(prior))
    for _ in range(500):
        p = 1 / (1 + np.exp(-(data.logits + design @ solution)))
        gradient = design.T @ (p - data.wrong) + prior * solution
        hessian = (design.T * (p * (1 - p))) @ design + np.diag(prior)
        solution = solution - 0.3 * np.linalg.solve(hessian, gradient)
    return solution


@pytest.mark.parametrize(("n", "n_types"), [(1, 1), (30, 2), (400, 5), (2_000, 12)])
def test_the_fit_is_that_of_a_dense_newton(n: int, n_types: int) -> None:
    data = words(n, n, n_types)
    np.testing.assert_allclose(join(fit_offsets(data)), dense(data), atol=1e-7)


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 6), st.sampled_from([0.1, 3.0, 8.0]))
@settings(deadline=None, max_examples=60)
def test_no_step_in_any_direction_is_better(seed: int, n: int, n_types: int, spread: float) -> None:
    data = words(seed, n, n_types, spread=spread)
    fitted = fit_offsets(data)
    best = compute_objective(data, fitted)
    random = np.random.default_rng(seed)
    for _ in range(10):
        step = random.normal(0, 0.01, data.n_types + data.n_pairs + 1)
        assert compute_objective(data, split(join(fitted) + step, data)) >= best


@pytest.mark.parametrize("answer", [0.0, 1.0])
def test_equal_verdicts_keep_the_fit_finite(answer: float) -> None:
    fitted = fit_offsets(replace(words(3, 500, 4, spread=6.0), wrong=np.full(500, answer)))
    assert np.isfinite(join(fitted)).all()
    assert abs(fitted.bias) < 100


def test_a_type_or_pair_without_words_stays_at_its_prior() -> None:
    data = words(1, 200, 2)
    without_pairs = np.full(200, data.n_pairs)
    fitted = fit_offsets(replace(data, pairs=without_pairs, n_types=3))
    assert fitted.types[2] == 0
    assert not fitted.pairs.any()


def test_a_step_that_overshoots_is_damped() -> None:
    # The scores say that all words are wrong, and reviewers the opposite: a full step overflows exp.
    zeros = np.zeros(200, np.intp)
    data = WordArrays(zeros, zeros, np.full(200, to_logit(0.0)), np.zeros(200), np.zeros(1, np.intp), 1)
    fitted = fit_offsets(data)
    p = 1 / (1 + math.exp(-(data.logits[0] + fitted.types[0] + fitted.pairs[0] + fitted.bias)))
    assert p < 0.05
    assert compute_objective(data, fitted) < compute_objective(data, Offsets(np.zeros(1), np.zeros(1), 0.0))


# -- words of a decision ---------------------------------------------------------------------------------------


def test_ok_says_that_all_scored_words_are_right() -> None:
    reviewed = extract_reviewed_words(make_decision("ok"), SHOWN)
    assert reviewed == ReviewedWords(
        (WordKind("O"), WordKind("PER", "ORG"), WordKind("LOC")),
        (to_logit(0.9), to_logit(0.2), to_logit(0.4)),
        (False, False, False),
    )


def test_an_error_with_its_words_says_the_others_are_right() -> None:
    reviewed = extract_reviewed_words(make_decision("error", words=[3]), SHOWN)
    assert reviewed is not None
    assert reviewed.wrong == (False, False, True)


def test_corrected_labels_say_which_words_were_wrong() -> None:
    reviewed = extract_reviewed_words(make_decision("error", labels=["O", "B-ORG", "I-ORG", "B-LOC"]), SHOWN)
    assert reviewed is not None
    wrong = {kind.given: is_wrong for kind, is_wrong in zip(reviewed.kinds, reviewed.wrong, strict=True)}
    assert wrong == {"O": False, "PER": True, "LOC": False}


def test_an_error_without_a_word_is_about_the_worst_one_only() -> None:
    worst = ReviewedWords((WordKind("PER", "ORG"),), (to_logit(0.2),), (True,))
    assert extract_reviewed_words(make_decision("error"), SHOWN) == worst


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


def review_word(given: str, wrong: bool, score: float = 0.3, *, suggested: str | None = None) -> ReviewedWords:
    return ReviewedWords((WordKind(given, suggested),), (to_logit(score),), (wrong,))


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
    ranked = sorted(priorities, key=lambda p: (ranker.rank(p, [(WordKind("O", "PER"), p)]), p))
    assert ranked == sorted(priorities) == sorted(priorities, key=lambda p: off.rank(p, [(WordKind("O"), p)]))


@given(st.floats(1e-6, 1 - 1e-3))
def test_the_rank_is_the_priority_again(score: float) -> None:
    assert to_rank(to_logit(score)) == pytest.approx(score, rel=1e-9)


def test_a_type_that_is_often_wrong_comes_first() -> None:
    examples = [review_word("LOC", True), review_word("PER", False)] * 20
    ranker = Ranker.refit(examples)
    assert ranker.offsets["LOC"] > 0 > ranker.offsets["PER"]
    loc, org, per = (ranker.rank(0.3, [(WordKind(name), 0.3)]) for name in ("LOC", "ORG", "PER"))
    assert loc < org < per


def test_a_pair_that_is_often_wrong_comes_before_others_of_its_type() -> None:
    examples = [review_word("ORG", True, suggested="MISC"), review_word("ORG", False, suggested="O")] * 20
    ranker = Ranker.refit(examples)
    misc, unseen, outside = (ranker.rank(0.3, [(WordKind("ORG", name), 0.3)]) for name in ("MISC", "PER", "O"))
    assert misc < unseen < outside
    assert unseen == ranker.rank(0.3, [(WordKind("ORG"), 0.3)])
    assert ranker.pair_offsets["ORG", "MISC"] > 0 > ranker.pair_offsets["ORG", "O"]


def test_rankers_that_differ_in_a_pair_rank_differently() -> None:
    ranker = Ranker(enabled=True, offsets={"ORG": 1.0}, pair_offsets={("ORG", "O"): 0.5})
    assert ranker.ranks_like(replace(ranker, bias=3.0, decisions=30))
    assert not ranker.ranks_like(replace(ranker, pair_offsets={("ORG", "O"): 0.6}))
    assert not ranker.ranks_like(Ranker())


def test_the_worst_word_of_the_sentence_sets_its_rank() -> None:
    ranker = Ranker(enabled=True, offsets={"LOC": 2.0}, pair_offsets={("LOC", "ORG"): 1.0})
    loc, other = WordKind("LOC"), WordKind("O")
    assert ranker.rank(0.2, [(loc, 0.3), (other, 0.2)]) == to_rank(to_logit(0.3) + 2)
    assert ranker.rank(0.2, [(loc, 0.3), (WordKind("LOC", "ORG"), 0.3)]) == to_rank(to_logit(0.3) + 3)
    assert ranker.rank(0.2, [(loc, 0.9), (other, 1e-9)]) == to_rank(to_logit(1e-9))


def test_a_sentence_without_scored_words_is_last() -> None:
    assert Ranker().rank(None, []) == 1.0
