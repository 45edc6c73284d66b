"""Datasets and their confusions as label values: bounded, and made at 0 when they are first heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.labels import OUTSIDE, entity_type, merged_classes
from service.telemetry.bounded_labels import NOBODY, OTHER, OTHER_DATASETS, Bounded
from service.telemetry.metrics import SUSPECT_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.telemetry.batch_report import Standard
    from service.telemetry.metrics import Table

MOST_CONFUSIONS = 5_000


class DatasetLabels:
    """Safe to use from several threads."""

    def __init__(self, table: Table, *, most: int) -> None:
        self._table = table
        self._datasets: Bounded[str] = Bounded(most)
        self._prepared: set[str] = set()
        self._classes: dict[str, set[str]] = {}  # that thresholds are told of
        self._confusions: Bounded[tuple[str, str, str]] = Bounded(MOST_CONFUSIONS)

    def label(self, name: str) -> str:
        label = name if name in self._datasets else OTHER_DATASETS
        if label not in self._prepared:
            self._prepared.add(label)
            table = self._table
            for metric in (table.sentences, table.words, table.flagged):
                metric.labels(label)
            for histogram in (table.scores, table.priorities):
                histogram.prepare(label)
            for kind in SUSPECT_KINDS:
                table.suspects.labels(label, kind)
            for annotator in (NOBODY, OTHER):
                table.annotated.labels(label, annotator)
                table.annotator_flagged.labels(label, annotator)
        return label

    def know(self, dataset: str, classes: Sequence[str], given_types: Iterable[str]) -> None:
        """Makes its confusions at 0. `given_types`: how the dataset itself calls types, beside the model's."""
        label = self.label(dataset)
        suggested = merged_classes(classes)[0]
        pairs = [
            (label, given, other)
            for given in {*suggested, *given_types}
            for other in suggested
            if (given, other) != (OUTSIDE, OUTSIDE)  # within a type words may be confused by their prefix
        ]
        if label == OTHER_DATASETS or len(pairs) > self._confusions.room // 2:
            return
        for pair in pairs:
            if pair in self._confusions:
                self._table.confusions.labels(*pair)

    def judged_by(self, dataset: str, standard: Standard) -> None:
        """Its thresholds, and the words behind them."""
        label = self.label(dataset)
        if label == OTHER_DATASETS:
            return
        now = {*standard.thresholds, *standard.words}
        for name in self._classes.get(label, set()) - now:  # of other settings, which are no longer in force
            self._table.thresholds.remove(label, name)
            self._table.class_words.remove(label, name)
        self._classes[label] = now
        for name, threshold in standard.thresholds.items():
            if threshold is not None:
                self._table.thresholds.labels(label, name).set(threshold)
            else:  # too few words: not 0, and not the one from before the statistics began anew
                self._table.thresholds.remove(label, name)
        for name, words in standard.words.items():
            self._table.class_words.labels(label, name).set(words)

    def confusion(self, dataset: str, given: str, suggested: str) -> tuple[str, str, str]:
        """`dataset` is its label value."""
        triple = dataset, entity_type(given), entity_type(suggested)
        return triple if triple in self._confusions else (dataset, OTHER, OTHER)
