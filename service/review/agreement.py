"""Agreement of reviewers: Cohen's kappa over words, and F1 over exact spans.

A reviewer's answer is a label per word: the given labels if the verdict is ok, the corrected ones if it is error. Kappa
compares the entity types of the words and corrects for chance; nearly all words are outside of entities, so plain agreement
would always look high. F1 compares entities: a span agrees if extent and type are the same.

    kappa = (p_o − p_e) / (1 − p_e)      p_o: share of words with the same type
                                         p_e: the same by chance, from how often each reviewer gives each type
    F1    = 2 · same spans / (spans of one reviewer + spans of the other)

Over several pairs, p_o and p_e are averaged, weighted by words (pooled kappa, De Vries et al. 2008), and spans are added up.
The intervals are percentiles of a bootstrap over items, because words of a sentence are not independent. The draws are
seeded: the same answers always have the same interval.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.contracts import Message
from service.labels import get_entity_type
from service.review.items import parse_given_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

DRAWS: Final = 1_000
MAX_BLOCKS: Final = 500  # more items are drawn in groups: their interval is narrow anyway
SEED: Final = 20_240_531
INTERVAL: Final = (2.5, 97.5)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two answers about one item, as counts."""

    words: int
    same_words: int
    first_types: Counter[str]
    second_types: Counter[str]
    first_spans: int
    second_spans: int
    same_spans: int


class AgreementFigures(Message):
    """Kappa is None where it is not defined: both reviewers give all words one type. F1 is None without any span."""

    items: int = 0
    words: int = 0
    kappa: float | None = None
    kappa_low: float | None = None
    kappa_high: float | None = None
    f1: float | None = None
    f1_low: float | None = None
    f1_high: float | None = None


def compare_answers(first: Sequence[str], second: Sequence[str]) -> Comparison:
    """`first` and `second`: a label per word."""
    first_types, second_types = (list(map(get_entity_type, labels)) for labels in (first, second))
    first_spans, second_spans = (set(parse_given_spans(labels)) for labels in (first, second))
    return Comparison(
        words=len(first_types),
        same_words=sum(a == b for a, b in zip(first_types, second_types, strict=True)),
        first_types=Counter(first_types),
        second_types=Counter(second_types),
        first_spans=len(first_spans),
        second_spans=len(second_spans),
        same_spans=len(first_spans & second_spans),
    )


def measure_agreement(pairs: Sequence[Sequence[Comparison]], *, draws: int = DRAWS) -> AgreementFigures:
    """The agreement over all comparisons of each of these pairs. Without `draws` there are no intervals."""
    sums = [_PairSums.build(comparisons) for comparisons in pairs if comparisons]
    if not sums:
        return AgreementFigures()
    kappa, f1 = (float(values[0]) for values in _combine([each.add_up() for each in sums]))
    figures = AgreementFigures(
        items=sum(map(len, pairs)),
        words=sum(comparison.words for comparisons in pairs for comparison in comparisons),
        kappa=None if np.isnan(kappa) else kappa,
        f1=None if np.isnan(f1) else f1,
    )
    if not draws:
        return figures
    random = np.random.default_rng(SEED)
    bounds: dict[str, float] = {}
    for name, values in zip(("kappa", "f1"), _combine([each.draw(random, draws) for each in sums]), strict=True):
        defined = values[~np.isnan(values)]
        if getattr(figures, name) is not None and defined.size:
            bounds[f"{name}_low"], bounds[f"{name}_high"] = map(float, np.percentile(defined, INTERVAL))
    return figures.model_copy(update=bounds)


@dataclass(frozen=True, slots=True)
class _PairSums:
    """The counts of one pair of reviewers: a row per item, or per block of items."""

    words: Floats
    same_words: Floats
    first_types: Floats  # a column per type
    second_types: Floats
    spans: Floats  # of both reviewers together
    same_spans: Floats

    @classmethod
    def build(cls, comparisons: Sequence[Comparison]) -> _PairSums:
        types = sorted({name for each in comparisons for name in (*each.first_types, *each.second_types)})
        blocks = np.arange(len(comparisons)) % MAX_BLOCKS
        n_blocks = min(len(comparisons), MAX_BLOCKS)

        def add_up(rows: Sequence[Sequence[float]]) -> Floats:
            table = np.zeros((n_blocks, len(rows[0])))
            np.add.at(table, blocks, np.asarray(rows, np.float64))
            return table

        counts = add_up(
            [
                (each.words, each.same_words, each.first_spans + each.second_spans, each.same_spans)
                for each in comparisons
            ]
        )
        return cls(
            words=counts[:, 0],
            same_words=counts[:, 1],
            spans=counts[:, 2],
            same_spans=counts[:, 3],
            first_types=add_up([[each.first_types[name] for name in types] for each in comparisons]),
            second_types=add_up([[each.second_types[name] for name in types] for each in comparisons]),
        )

    def add_up(self) -> Floats:
        return self._weigh(np.ones((1, len(self.words))))

    def draw(self, random: np.random.Generator, draws: int) -> Floats:
        n_blocks = len(self.words)
        return self._weigh(random.multinomial(n_blocks, np.full(n_blocks, 1 / n_blocks), size=draws).astype(np.float64))

    def _weigh(self, weights: Floats) -> Floats:
        """Per row of weights: words, words · p_o, words · p_e, spans, same spans."""
        words = weights @ self.words
        chance = ((weights @ self.first_types) * (weights @ self.second_types)).sum(axis=1)
        expected = np.divide(chance, words, out=np.zeros_like(words), where=words > 0)
        return np.stack([words, weights @ self.same_words, expected, weights @ self.spans, weights @ self.same_spans])


def _combine(pairs: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Kappa and F1 of several pairs together; NaN where they are not defined."""
    words, same, expected, spans, same_spans = np.sum(pairs, axis=0)
    undefined = np.full_like(words, np.nan)
    possible = words - expected
    kappa = np.divide(same - expected, possible, out=undefined.copy(), where=possible > 1e-9 * np.maximum(words, 1))
    return kappa, np.divide(2 * same_spans, spans, out=undefined.copy(), where=spans > 0)
