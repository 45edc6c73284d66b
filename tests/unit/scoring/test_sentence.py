from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.scoring.confident import compute_thresholds, flag_words, sum_by_class
from service.scoring.flat import Bools, FlatSentences, Floats, flatten
from service.scoring.sentence import (
    DEFAULT_METHOD,
    METHODS,
    bad_token_counts_avg,
    bad_token_counts_min,
    expected_alt,
    expected_bad,
    product,
    score_sentences,
    worst_token_min_alt,
    worst_token_softmin,
)
from service.scoring.token import TOKEN_SCORES
from tests.unit.scoring.strategies import flats, make_golden, reorder_sentences, slice_sentence

PAPER = [
    "predicted-difference",
    "bad-token-counts",
    "bad-token-counts-avg",
    "bad-token-counts-min",
    "good-fraction",
    "penalize-bad-tokens",
    "average-quality",
    "product",
    "expected-bad",
    "expected-alt",
    "worst-token",
    "worst-token-min-alt",
    "worst-token-softmin",
]
WITHOUT_TOKEN_SCORE = {"predicted-difference", "bad-token-counts", "good-fraction"}
WITH_FLAGS = {
    "bad-token-counts",
    "bad-token-counts-avg",
    "bad-token-counts-min",
    "good-fraction",
    "penalize-bad-tokens",
    "worst-token-min-alt",
}

Words = list[float]
Reference = Callable[[list[Words], list[int], Words, list[bool]], float]


def _difference(p: list[Words], y: list[int], q: Words, b: list[bool]) -> float:
    wrong = [max(row) for row, label in zip(p, y, strict=True) if row.index(max(row)) != label]
    return -len(wrong) - max(wrong, default=0.0)


def _split(q: Words, b: list[bool]) -> tuple[Words, Words]:
    return [x for x, bad in zip(q, b, strict=True) if bad], [x for x, bad in zip(q, b, strict=True) if not bad]


def _mean(values: Words) -> float:
    return sum(values) / len(values) if values else 0.0


def _softmin(q: Words, t: float) -> float:
    weights = [math.exp((1 - x) / t) for x in q]
    return sum(x * w for x, w in zip(q, weights, strict=True)) / sum(weights)


# The formulas of the paper, a sentence at a time: probabilities, labels, token scores, flags.
REFERENCE: dict[str, Reference] = {
    "predicted-difference": _difference,
    "bad-token-counts": lambda p, y, q, b: -sum(b),
    "bad-token-counts-avg": lambda p, y, q, b: -sum(b) + _mean(_split(q, b)[0]) + 1e-5 * _mean(_split(q, b)[1]),
    "bad-token-counts-min": lambda p, y, q, b: (
        -sum(b) + min(_split(q, b)[0], default=0.0) + 1e-5 * min(_split(q, b)[1], default=0.0)
    ),
    "good-fraction": lambda p, y, q, b: 1 - sum(b) / len(b),
    "penalize-bad-tokens": lambda p, y, q, b: 1 - sum(1 - x for x in _split(q, b)[0]) / len(q),
    "average-quality": lambda p, y, q, b: _mean(q),
    "product": lambda p, y, q, b: sum(math.log(x + 1e-3) for x in q),
    "expected-bad": lambda p, y, q, b: sum(j * x for j, x in enumerate(sorted(q)[:2], 1)),
    "expected-alt": lambda p, y, q, b: sum(sorted(q)[:2]),
    "worst-token": lambda p, y, q, b: min(q),
    "worst-token-min-alt": lambda p, y, q, b: min(x - 0.1 * bad for x, bad in zip(q, b, strict=True)),
    "worst-token-softmin": lambda p, y, q, b: _softmin(q, 10**-1.5),
}


def flags_of(data: FlatSentences) -> Bools:
    return flag_words(data.probs, data.given, compute_thresholds(*sum_by_class(data.probs, data.given)))


def all_flags(data: FlatSentences, value: bool) -> Bools:
    return np.full(data.n_words, value)


# A sentence each: none flagged, one of two, all.
Q = np.array([0.9, 0.6, 0.1, 0.8, 0.2])
B = np.array([False, False, True, False, True])
THREE = FlatSentences(np.full((5, 2), 0.5), np.zeros(5, dtype=np.intp), np.array([0, 2, 4]))


def test_the_registry_has_the_papers_names() -> None:
    assert list(METHODS) == PAPER
    assert all(method.name == name for name, method in METHODS.items())
    assert {name for name, method in METHODS.items() if not method.uses_token_score} == WITHOUT_TOKEN_SCORE
    assert {name for name, method in METHODS.items() if method.uses_flags} == WITH_FLAGS
    assert DEFAULT_METHOD == "worst-token"


@pytest.mark.parametrize("name", PAPER)
@given(data=flats(max_sentences=4), seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_formulas(name: str, data: FlatSentences, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = rng.choice([0.0, 0.2, 0.5, 1.0, *rng.random(4)], data.n_words)
    flags = rng.random(data.n_words) < rng.choice([0.0, 0.3, 1.0])
    expected = [
        REFERENCE[name](
            data.probs[start:end].tolist(),
            data.given[start:end].tolist(),
            q[start:end].tolist(),
            flags[start:end].tolist(),
        )
        for start, end in zip(data.starts, data.ends, strict=True)
    ]
    np.testing.assert_allclose(METHODS[name].function(data, q, flags), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", PAPER)
def test_what_a_method_says_it_does_not_use_it_does_not_use(name: str) -> None:
    rng = np.random.default_rng(0)
    data = make_golden()
    q, other_q = rng.random((2, data.n_words))
    b = np.array([True, False, True, False, True, True])
    method = METHODS[name]
    scores = method.function(data, q, b)
    assert np.array_equal(scores, method.function(data, other_q, b)) is not method.uses_token_score
    assert np.array_equal(scores, method.function(data, q, ~b)) is not method.uses_flags


class TestGolden:
    def test_worst_token(self) -> None:
        np.testing.assert_array_equal(score_sentences(make_golden()), [0.6, 0.0, 0.8])

    @pytest.mark.parametrize(
        ("temperature", "expected"),
        [
            (0.05, [0.600741787, 1.8005624e-7, 0.8]),
            (0.0, [0.6, 0.0, 0.8]),
            (math.inf, [0.75, 1.6 / 3, 0.8]),
            (1e-300, [0.6, 0.0, 0.8]),
        ],
    )
    def test_softmin(self, temperature: float, expected: list[float]) -> None:
        data = make_golden()
        q = np.array([0.9, 0.6, 0.0, 0.8, 0.8, 0.8])
        scores = worst_token_softmin(data, q, all_flags(data, False), temperature=temperature)
        np.testing.assert_allclose(scores, expected, rtol=1e-7, atol=1e-14)

    @pytest.mark.parametrize("temperature", [-1.0, math.nan])
    def test_a_temperature_that_is_none(self, temperature: float) -> None:
        with pytest.raises(InvalidInput, match="`temperature`"):
            worst_token_softmin(THREE, Q, B, temperature=temperature)


class TestParameters:
    """The paper's are the defaults; these show what they do, on numbers one can check by hand."""

    def test_tie_break(self) -> None:
        np.testing.assert_allclose(bad_token_counts_avg(THREE, Q, B, tie_break=0.5), [0.375, -0.5, -0.8])
        np.testing.assert_allclose(bad_token_counts_min(THREE, Q, B, tie_break=0.5), [0.3, -0.5, -0.8])

    def test_offset(self) -> None:
        np.testing.assert_allclose(product(THREE, Q, B, offset=0.1), [math.log(0.7), math.log(0.18), math.log(0.3)])

    def test_words(self) -> None:
        np.testing.assert_allclose(expected_bad(THREE, Q, B), [2.4, 1.7, 0.2])
        np.testing.assert_allclose(expected_bad(THREE, Q, B, words=1), [0.6, 0.1, 0.2])
        np.testing.assert_allclose(expected_alt(THREE, Q, B, words=5), [1.5, 0.9, 0.2])

    def test_penalty_of_1_puts_every_flagged_sentence_below_the_others(self) -> None:
        np.testing.assert_allclose(worst_token_min_alt(THREE, Q, B, penalty=1.0), [0.6, -0.9, -0.8])


class TestByName:
    def test_unknown_names_are_answered_with_the_known(self) -> None:
        with pytest.raises(InvalidInput, match=r"'worst' is not one of predicted-difference, .*worst-token-softmin"):
            score_sentences(make_golden(), method="worst")
        with pytest.raises(InvalidInput, match="`token_score`: 'sc' is not one of self-confidence, normalized-margin"):
            score_sentences(make_golden(), token_score="sc")

    @pytest.mark.parametrize("name", sorted(WITH_FLAGS))
    def test_flags_that_are_needed(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=f"method {name} needs the flags"):
            score_sentences(make_golden(), method=name)

    @pytest.mark.parametrize("flags", [np.zeros(5, dtype=np.bool_), np.zeros(6, dtype=np.intp)])
    def test_flags_that_do_not_fit(self, flags: Bools) -> None:
        with pytest.raises(InvalidInput, match="`flags`: should be 6 booleans"):
            score_sentences(make_golden(), flags=flags)

    @pytest.mark.parametrize("token_score", TOKEN_SCORES)
    @pytest.mark.parametrize("name", PAPER)
    def test_every_pair_scores_every_sentence(self, name: str, token_score: str) -> None:
        data = make_golden()
        scores = score_sentences(data, method=name, token_score=token_score, flags=flags_of(data))
        q = TOKEN_SCORES[token_score](data.probs, data.given)
        np.testing.assert_array_equal(scores, METHODS[name].function(data, q, flags_of(data)))
        assert np.isfinite(scores).all()
        assert scores[1] < scores[0], "the sentence with the wrong label is worse than the one without"

    @pytest.mark.parametrize("name", PAPER)
    def test_no_sentences(self, name: str) -> None:
        assert score_sentences(flatten([], []), method=name, flags=np.zeros(0, dtype=np.bool_)).shape == (0,)


def scores_by(data: FlatSentences, name: str, token_score: str, flags: Bools) -> Floats:
    return score_sentences(data, method=name, token_score=token_score, flags=flags)


@pytest.mark.parametrize("token_score", TOKEN_SCORES)
@pytest.mark.parametrize("name", PAPER)
@given(data=flats(), draw=st.data())
@settings(deadline=None, max_examples=10)
def test_sentences_do_not_see_each_other(name: str, token_score: str, data: FlatSentences, draw: st.DataObject) -> None:
    """Permuting the sentences permutes the scores, and scoring them one by one changes none."""
    flags = flags_of(data)
    scores = scores_by(data, name, token_score, flags)

    order = draw.draw(st.permutations(range(data.n_sentences)))
    parts = np.split(flags, data.starts[1:])
    moved = scores_by(reorder_sentences(data, order), name, token_score, np.concatenate([parts[i] for i in order]))
    alone = np.concatenate([scores_by(slice_sentence(data, i), name, token_score, parts[i]) for i in range(len(parts))])

    if name == "worst-token" and token_score != "confidence-weighted-entropy":
        np.testing.assert_array_equal(moved, scores[order])
        np.testing.assert_array_equal(alone, scores)
    else:  # vectorised sums and logarithms may round the last digit by their place in the array
        np.testing.assert_allclose(moved, scores[order], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(alone, scores, rtol=1e-12, atol=1e-15)
