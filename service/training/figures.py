"""How good cross-fitted heads are: entity F1 per type on sentences that the head did not see, with a verdict in words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from service.labels import parse_spans
from service.training.sentences import NO_CLASS

if TYPE_CHECKING:
    import numpy.typing as npt

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


def compute_figures(data: TrainingSet, probs: npt.NDArray[np.float64]) -> TrainingFigures:
    """Exact matches of start, end and type; words of types that are not trained do not count."""
    predicted_ids = np.where(data.given == NO_CLASS, 0, probs.argmax(axis=1)).tolist()
    given_ids = data.given.tolist()
    given_counts: Counter[str] = Counter()
    predicted_counts: Counter[str] = Counter()
    agreed_counts: Counter[str] = Counter()
    for start, end in zip(data.starts[:-1].tolist(), data.starts[1:].tolist(), strict=True):
        given = [data.classes[max(k, 0)] for k in given_ids[start:end]]
        predicted = [data.classes[k] for k in predicted_ids[start:end]]
        true_spans, spans = set(parse_spans(given, data.scheme)), set(parse_spans(predicted, data.scheme))
        given_counts.update(span.type for span in true_spans)
        predicted_counts.update(span.type for span in spans)
        agreed_counts.update(span.type for span in true_spans & spans)
    by_type = tuple(
        TypeFigures(
            name,
            data.examples[name],
            agreed_counts[name] / predicted_counts[name] if predicted_counts[name] else 0.0,
            agreed_counts[name] / given_counts[name] if given_counts[name] else 0.0,
            _compute_f1(agreed_counts[name], predicted_counts[name], given_counts[name]),
        )
        for name in data.types
    )
    return TrainingFigures(_compute_f1(agreed_counts.total(), predicted_counts.total(), given_counts.total()), by_type)


def _compute_f1(agreed: int, predicted: int, given: int) -> float:
    return 2 * agreed / (predicted + given) if predicted + given else 0.0
