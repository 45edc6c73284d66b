"""Updates the metrics of review: counts of the queue, and what decisions say about flags, reviewers and annotators."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from service.telemetry.metrics.bounded_labels import OTHER_DATASETS
from service.telemetry.metrics.metrics import ESTIMATE_BOUNDS, REVIEW_STATES, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.telemetry.metrics.bounded_labels import AnnotatorLabels
    from service.telemetry.metrics.dataset_labels import DatasetLabels
    from service.telemetry.metrics.metrics import Metrics


class ReviewMetrics:
    """Gauges that are set from the queue at each scrape."""

    def __init__(self, metrics: Metrics, datasets: DatasetLabels, annotators: AnnotatorLabels) -> None:
        self._metrics = metrics
        self._datasets = datasets
        self._annotators = annotators
        self._outcomes: dict[tuple[str, str, str, str], tuple[int, int]] = {}  # behind the precision

    def has_own_label(self, dataset: str) -> bool:
        """Whether the dataset has metrics of its own: only the first datasets have."""
        return self._datasets.to_label(dataset) != OTHER_DATASETS

    def set_counts(self, dataset: str, *, states: Mapping[str, int], verdicts: Mapping[str, int]) -> None:
        """Sets the current counts of a dataset's review queue."""
        label = self._datasets.to_label(dataset)
        if label == OTHER_DATASETS:
            return
        for state in REVIEW_STATES:
            self._metrics.review_items.labels(label, state).set(states.get(state, 0))
        for verdict in VERDICTS:
            self._metrics.decisions.labels(label, verdict).set(verdicts.get(verdict, 0))

    def set_precision(self, outcomes: Mapping[tuple[str, str, str, str], tuple[int, int]]) -> None:
        """(dataset, given type, suggested type, method) → (errors, decided items)."""
        if outcomes == self._outcomes:  # to create 400 series again took 12 ms
            return
        self._outcomes = dict(outcomes)
        errors_by_labels: Counter[tuple[str, str, str, str]] = Counter()
        decided_by_labels: Counter[tuple[str, str, str, str]] = Counter()
        for (dataset, given, suggested, method), (errors, decided) in outcomes.items():
            labels = *self._datasets.to_confusion_labels(self._datasets.to_label(dataset), given, suggested), method
            errors_by_labels[labels] += errors
            decided_by_labels[labels] += decided
        self._metrics.precision.clear()
        self._metrics.precision_items.clear()
        for labels, decided in decided_by_labels.items():
            if decided:
                self._metrics.precision.labels(*labels).set(errors_by_labels[labels] / decided)
                self._metrics.precision_items.labels(*labels).set(decided)

    def set_recall(self, dataset: str, *, estimate: float | None, low: float | None, high: float | None) -> None:
        label = self._datasets.to_label(dataset)
        if label == OTHER_DATASETS:
            return
        for bound, value in zip(ESTIMATE_BOUNDS, (estimate, low, high), strict=True):
            if value is not None:
                self._metrics.recall.labels(label, bound).set(value)
            else:  # no estimate any more, as after decisions are withdrawn
                self._metrics.recall.remove(label, bound)

    def set_agreement(self, dataset: str, *, kappa: float | None, f1: float | None, items: int) -> None:
        label = self._datasets.to_label(dataset)
        if label == OTHER_DATASETS:
            return
        self._metrics.agreement_items.labels(label).set(items)
        for measure, value in (("kappa", kappa), ("f1", f1)):
            if value is not None:
                self._metrics.agreement.labels(label, measure).set(value)
            else:
                self._metrics.agreement.remove(label, measure)

    @property
    def names_annotators(self) -> bool:
        """Whether the settings allow the name of any annotator."""
        return self._annotators.names_any

    def set_annotator_f1(self, f1: Mapping[str, Mapping[str, tuple[float, float, float]]]) -> None:
        """Dataset → annotator → (estimate, low, high). Annotators that may not be named are left out: F1 does not add up."""
        found: dict[tuple[str, str], tuple[float, float, float]] = {}
        for dataset, annotators in f1.items():
            label = self._datasets.to_label(dataset)
            for name, values in annotators.items():
                if label != OTHER_DATASETS and self._annotators.to_label(name) == name:
                    found[label, name] = values
        self._metrics.annotator_f1.clear()  # also those that are not shown any more
        for (label, name), values in found.items():
            for bound, value in zip(ESTIMATE_BOUNDS, values, strict=True):
                self._metrics.annotator_f1.labels(label, name, bound).set(value)
