"""The paper's eleven scores for a sentence and its two variants, by the paper's names. Low is bad.

q is a token score per word, b the flags; R are a sentence's flagged words, S the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias, TypeVar

import numpy as np

from service.errors import InvalidInput
from service.scoring.flat import Bools, FlatSentences, Floats, segment_max, segment_mean, segment_min, segment_sum
from service.scoring.token import DEFAULT_TOKEN_SCORE, TOKEN_SCORES, predict_classes

TIE_BREAK = 1e-5
"""ε: with this weight the unflagged words order sentences that are otherwise equal."""

PAPER_TEMPERATURE = 10**-1.5

T = TypeVar("T")

SentenceScore: TypeAlias = Callable[[FlatSentences, Floats, Bools], Floats]


@dataclass(frozen=True, slots=True)
class ScoringMethod:
    """A method to score sentences. Inputs that it does not use are zeros."""

    name: str
    uses_token_score: bool
    uses_flags: bool
    function: SentenceScore


def predicted_difference(flat: FlatSentences, _q: Floats, _flags: Bools) -> Floats:
    """−|D| − max_D p_predicted over the words D whose most probable class is not the given one."""
    predicted = predict_classes(flat.probs)
    differs = predicted != flat.given
    confidence = np.where(differs, flat.probs[np.arange(flat.n_words), predicted], 0.0)
    return -segment_sum(differs, flat) - segment_max(confidence, flat)


def bad_token_counts(flat: FlatSentences, _q: Floats, flags: Bools) -> Floats:
    """−Σb."""
    return -segment_sum(flags, flat)


def bad_token_counts_avg(flat: FlatSentences, q: Floats, flags: Bools, *, tie_break: float = TIE_BREAK) -> Floats:
    """−Σb + mean_R q + ε·mean_S q; the mean of no words is 0."""
    return -segment_sum(flags, flat) + _mean_over(flat, q, flags) + tie_break * _mean_over(flat, q, ~flags)


def bad_token_counts_min(flat: FlatSentences, q: Floats, flags: Bools, *, tie_break: float = TIE_BREAK) -> Floats:
    """−Σb + min_R q + ε·min_S q; the minimum of no words is 0."""
    return -segment_sum(flags, flat) + _min_over(flat, q, flags) + tie_break * _min_over(flat, q, ~flags)


def good_fraction(flat: FlatSentences, _q: Floats, flags: Bools) -> Floats:
    """The share of words that are not flagged."""
    return 1 - segment_mean(flags, flat)


def penalize_bad_tokens(flat: FlatSentences, q: Floats, flags: Bools) -> Floats:
    """1 − mean of b·(1 − q)."""
    return 1 - segment_mean(flags * (1 - q), flat)


def average_quality(flat: FlatSentences, q: Floats, _flags: Bools) -> Floats:
    """Mean q."""
    return segment_mean(q, flat)


def product(flat: FlatSentences, q: Floats, _flags: Bools, *, offset: float = 1e-3) -> Floats:
    """Σ ln(q + c)."""
    return segment_sum(np.log(q + offset), flat)


def expected_bad(flat: FlatSentences, q: Floats, _flags: Bools, *, words: int = 2) -> Floats:
    """Σ j·q^(j) over the `words` lowest q, from the lowest on."""
    ordered, rank = _sort_within_sentences(flat, q)
    return segment_sum(np.where(rank <= words, rank * ordered, 0.0), flat)


def expected_alt(flat: FlatSentences, q: Floats, _flags: Bools, *, words: int = 2) -> Floats:
    """Σ q^(j) over the `words` lowest q."""
    ordered, rank = _sort_within_sentences(flat, q)
    return segment_sum(np.where(rank <= words, ordered, 0.0), flat)


def worst_token(flat: FlatSentences, q: Floats, _flags: Bools) -> Floats:
    """Min q: the paper's choice."""
    return segment_min(q, flat)


def worst_token_min_alt(flat: FlatSentences, q: Floats, flags: Bools, *, penalty: float = 0.1) -> Floats:
    """min(q − d·b). The paper prints a plus; its text and its figures need the minus."""
    return segment_min(q - penalty * flags, flat)


def worst_token_softmin(
    flat: FlatSentences, q: Floats, _flags: Bools, *, temperature: float = PAPER_TEMPERATURE
) -> Floats:
    """⟨q, softmax((1 − q)/t)⟩: the minimum at t = 0, the mean at t = ∞."""
    if not temperature >= 0:
        raise InvalidInput(f"should be 0 or more, not {temperature}", field="temperature")
    lowest = segment_min(q, flat)
    if temperature == 0:
        return lowest
    above = q - np.repeat(lowest, flat.lengths)
    with np.errstate(over="ignore", under="ignore"):  # far above the minimum the weight is 0
        weights = np.exp(-above / temperature)
    # Relative to the minimum, so a sentence of words with equal scores gets exactly that score.
    return lowest + segment_sum(above * weights, flat) / segment_sum(weights, flat)


def _mean_over(flat: FlatSentences, q: Floats, chosen: Bools) -> Floats:
    return segment_sum(np.where(chosen, q, 0.0), flat) / np.maximum(segment_sum(chosen, flat), 1)


def _min_over(flat: FlatSentences, q: Floats, chosen: Bools) -> Floats:
    lowest = segment_min(np.where(chosen, q, np.inf), flat)
    return np.where(np.isinf(lowest), 0.0, lowest)


def _sort_within_sentences(flat: FlatSentences, q: Floats) -> tuple[Floats, Floats]:
    """The q in ascending order within each sentence, and the rank of each position, from 1."""
    sentence = np.repeat(np.arange(flat.n_sentences), flat.lengths)
    rank = np.arange(1.0, flat.n_words + 1) - np.repeat(flat.starts, flat.lengths)
    return q[np.lexsort((q, sentence))], rank


DEFAULT_METHOD = "worst-token"

METHODS: Mapping[str, ScoringMethod] = MappingProxyType(
    {
        method.name: method
        for method in (
            ScoringMethod("predicted-difference", False, False, predicted_difference),
            ScoringMethod("bad-token-counts", False, True, bad_token_counts),
            ScoringMethod("bad-token-counts-avg", True, True, bad_token_counts_avg),
            ScoringMethod("bad-token-counts-min", True, True, bad_token_counts_min),
            ScoringMethod("good-fraction", False, True, good_fraction),
            ScoringMethod("penalize-bad-tokens", True, True, penalize_bad_tokens),
            ScoringMethod("average-quality", True, False, average_quality),
            ScoringMethod("product", True, False, product),
            ScoringMethod("expected-bad", True, False, expected_bad),
            ScoringMethod("expected-alt", True, False, expected_alt),
            ScoringMethod(DEFAULT_METHOD, True, False, worst_token),
            ScoringMethod("worst-token-min-alt", True, True, worst_token_min_alt),
            ScoringMethod("worst-token-softmin", True, False, worst_token_softmin),
        )
    }
)


def score_sentences(
    flat: FlatSentences,
    *,
    method: str = DEFAULT_METHOD,
    token_score: str = DEFAULT_TOKEN_SCORE,
    flags: Bools | None = None,
) -> Floats:
    """A score for each sentence, with the named method and token score."""
    scoring_method = _look_up(METHODS, method, "method")
    score = _look_up(TOKEN_SCORES, token_score, "token_score")
    if flags is None:
        if scoring_method.uses_flags:
            raise InvalidInput(f"method {method} needs the flags of the words", field="flags")
        flags = np.zeros(flat.n_words, dtype=np.bool_)
    elif flags.shape != (flat.n_words,) or flags.dtype != np.bool_:
        raise InvalidInput(
            f"should be {flat.n_words} booleans, not {flags.dtype} of shape {flags.shape}", field="flags"
        )
    q = score(flat.probs, flat.given) if scoring_method.uses_token_score else np.zeros(flat.n_words)
    return scoring_method.function(flat, q, flags)


def _look_up(registry: Mapping[str, T], name: str, field: str) -> T:
    try:
        return registry[name]
    except KeyError:
        raise InvalidInput(f"{name!r} is not one of {', '.join(registry)}", field=field) from None
