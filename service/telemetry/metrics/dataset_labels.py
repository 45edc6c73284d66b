"""Datasets and their confusions as label values: bounded, and created at 0 when first seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.labels import OUTSIDE, get_entity_type, merge_by_type
from service.telemetry.metrics.bounded_labels import OTHER, OTHER_DATASETS, UNKNOWN_ANNOTATOR, LabelLimit
from service.telemetry.metrics.metrics import SUSPECT_KINDS, TRAINING_RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.telemetry.batch_report import ThresholdReport
    from service.telemetry.metrics.metrics import Metrics

MAX_CONFUSION_LABELS = 5_000


class DatasetLabels:
    """Safe to use from several threads."""

    def __init__(self, metrics: Metrics, *, max_datasets: int) -> None:
        self._metrics = metrics
        self._datasets: LabelLimit[str] = LabelLimit(max_datasets)
        self._initialized: set[str] = set()
        self._threshold_classes: dict[str, set[str]] = {}  # by dataset, the classes with a threshold series
        self._confusions: LabelLimit[tuple[str, str, str]] = LabelLimit(MAX_CONFUSION_LABELS)

    def to_label(self, name: str) -> str:
        label = name if name in self._datasets else OTHER_DATASETS
        if label not in self._initialized:
            self._initialized.add(label)
            metrics = self._metrics
            for metric in (metrics.sentences, metrics.words, metrics.flagged_sentences, metrics.waiting):
                metric.labels(label)
            if label != OTHER_DATASETS:
                metrics.model_misfit.labels(label).set(0)
            for histogram in (metrics.scores, metrics.priorities):
                histogram.init_labels(label)
            for kind in SUSPECT_KINDS:
                metrics.suspects.labels(label, kind)
            for result in TRAINING_RESULTS:
                metrics.trainings.labels(label, result)
            for annotator in (UNKNOWN_ANNOTATOR, OTHER):
                metrics.annotator_sentences.labels(label, annotator)
                metrics.annotator_flagged.labels(label, annotator)
        return label

    def register(self, dataset: str, classes: Sequence[str], given_types: Iterable[str]) -> None:
        """Creates its confusions at 0. `given_types`: the dataset's own names of entity types, beside the model's."""
        label = self.to_label(dataset)
        suggested = merge_by_type(classes)[0]
        given = {*suggested, *given_types}
        # Counted before they are built: 1,000 types on either side are a million pairs.
        if label == OTHER_DATASETS or len(given) * len(suggested) > self._confusions.remaining // 2:
            return
        for given_type in given:
            for suggested_type in suggested:
                if given_type == suggested_type == OUTSIDE:  # other equal types count: the prefix may be wrong
                    continue
                triple = label, given_type, suggested_type
                if triple in self._confusions:
                    self._metrics.confusions.labels(*triple)

    def set_thresholds(self, dataset: str, report: ThresholdReport) -> None:
        """Sets its thresholds, and the number of words behind each."""
        label = self.to_label(dataset)
        if label == OTHER_DATASETS:
            return
        classes = {*report.thresholds, *report.words}
        for name in self._threshold_classes.get(label, set()) - classes:  # of settings that are no longer in force
            self._metrics.thresholds.remove(label, name)
            self._metrics.class_words.remove(label, name)
        self._threshold_classes[label] = classes
        for name, threshold in report.thresholds.items():
            if threshold is not None:
                self._metrics.thresholds.labels(label, name).set(threshold)
            else:  # too few words: no series, instead of 0 or of the value before a reset of the statistics
                self._metrics.thresholds.remove(label, name)
        for name, words in report.words.items():
            self._metrics.class_words.labels(label, name).set(words)

    def to_confusion_labels(self, dataset: str, given: str, suggested: str) -> tuple[str, str, str]:
        """`dataset`: the label value of the dataset."""
        triple = dataset, get_entity_type(given), get_entity_type(suggested)
        return triple if triple in self._confusions else (dataset, OTHER, OTHER)
