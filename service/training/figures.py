"""How good cross-fitted heads are: entity F1 per type on sentences that the head did not see, with a verdict in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from service.inference.features.folds import N_FOLDS, compute_fold
from service.labels import parse_spans
from service.training.sentences import NO_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from service.labels import Span
    from service.training.sentences import TrainingSet

WARN_SENTENCES = 500
WARN_TYPE_EXAMPLES = 20
GOOD_F1 = 0.6
FAIR_F1 = 0.4


@dataclass(frozen=True, slots=True)
class TypeFigures:
    """Figures of one entity type against the given labels."""

    name: str
    examples: int
    precision: float
    recall: float
    f1: float

    @property
    def verdict(self) -> str:
        if self.examples < WARN_TYPE_EXAMPLES:
            return f"more data needed: {self.examples} examples, {WARN_TYPE_EXAMPLES} are the least"
        if self.f1 >= GOOD_F1:
            return "good enough to review with"
        if self.f1 >= FAIR_F1:
            return "fair: expect false alarms"
        return "poor: more or more consistent examples needed"


@dataclass(frozen=True, slots=True)
class TrainingFigures:
    """F1 over all types and of each. It is measured against the given labels, errors included."""

    f1: float
    by_type: tuple[TypeFigures, ...]
    f1_by_fold: tuple[float, ...] = ()


class SpanCounts:
    """Given, predicted and agreed entities by type."""

    def __init__(self) -> None:
        self.given: Counter[str] = Counter()
        self.predicted: Counter[str] = Counter()
        self.agreed: Counter[str] = Counter()

    def add(self, given: set[Span], predicted: set[Span]) -> None:
        """Counts a sentence. Spans agree if start, end and type are the same."""
        self.given.update(span.type for span in given)
        self.predicted.update(span.type for span in predicted)
        self.agreed.update(span.type for span in given & predicted)

    @property
    def f1(self) -> float:
        return _compute_f1(self.agreed.total(), self.predicted.total(), self.given.total())

    def compute_figures(self, name: str, examples: int) -> TypeFigures:
        given, predicted, agreed = self.given[name], self.predicted[name], self.agreed[name]
        return TypeFigures(
            name,
            examples,
            agreed / predicted if predicted else 0.0,
            agreed / given if given else 0.0,
            _compute_f1(agreed, predicted, given),
        )


def compute_figures(data: TrainingSet, probs: npt.NDArray[np.float64]) -> TrainingFigures:
    """Exact matches of start, end and type; words of types that are not trained do not count."""
    predicted = np.where(data.given == NO_CLASS, 0, probs.argmax(axis=1))
    total, by_fold = _count_spans(data, _iterate_spans(data, predicted))
    by_type = tuple(total.compute_figures(name, data.examples[name]) for name in data.types)
    return TrainingFigures(total.f1, by_type, tuple(counts.f1 for counts in by_fold))


def compute_f1(data: TrainingSet, predicted: Iterable[set[Span]]) -> tuple[float, tuple[float, ...]]:
    """F1 over all sentences and by fold, of entities that were predicted sentence by sentence."""
    total, by_fold = _count_spans(data, predicted)
    return total.f1, tuple(counts.f1 for counts in by_fold)


def _count_spans(data: TrainingSet, predicted: Iterable[set[Span]]) -> tuple[SpanCounts, list[SpanCounts]]:
    total, by_fold = SpanCounts(), [SpanCounts() for _ in range(N_FOLDS)]
    given = _iterate_spans(data, np.maximum(data.given, 0))
    for words, given_spans, predicted_spans in zip(data.sentences, given, predicted, strict=True):
        total.add(given_spans, predicted_spans)
        by_fold[compute_fold(words)].add(given_spans, predicted_spans)
    return total, by_fold


def _iterate_spans(data: TrainingSet, classes: npt.NDArray[np.intp]) -> Iterator[set[Span]]:
    """The entities of each sentence, from the class of each word."""
    names = [data.classes[k] for k in classes.tolist()]
    for start, end in pairwise(data.starts.tolist()):
        yield set(parse_spans(names[start:end], data.scheme))


def _compute_f1(agreed: int, predicted: int, given: int) -> float:
    return 2 * agreed / (predicted + given) if predicted + given else 0.0
