"""Datasets that no model fits: their sentences wait, which means that they are stored until the dataset has a model.

A label without a class may be a typing error in a dataset that fits, or a type that the model does not know. The labels
that have arrived so far tell: a dataset fits if labels with a class are at least `MIN_KNOWN_RATIO` times as frequent as
labels without one. Both are counted in sentences that contain the label, and "O" does not count.

Only the service's own choice of model is questioned. A dataset that sets `model`, `label_set` or `unmapped` never waits:
there a label without a class is rejected or unscored, as its settings say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.statistics.arrivals import OTHER_LABELS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.contracts import DatasetSettings
    from service.judging.judge import Judge
    from service.statistics.arrivals import ArrivalCounts

MIN_KNOWN_RATIO = 4


@dataclass(frozen=True, slots=True)
class WaitingDataset:
    """A dataset with stored sentences. `unknown_labels` are the labels without a class, with their sentences.

    `fits` is True once the dataset has a model that fits: then the workers judge what is stored, and the number falls.
    """

    name: str
    sentences: int
    unknown_labels: Mapping[str, int]
    fits: bool
    advice: str  # what to do about the most frequent unknown label


def may_wait(settings: DatasetSettings) -> bool:
    """Whether the settings leave it to the service which labels the dataset may have."""
    return settings.model is None and settings.label_set is None and settings.unmapped == "reject"


@dataclass(slots=True)
class LabelFit:
    """How often the labels of a dataset have a class, and how often they have none."""

    known: int = 0
    unknown: int = 0

    @classmethod
    def from_counts(cls, judge: Judge, counts: ArrivalCounts) -> LabelFit:
        fit = cls()
        for label, count in counts.labels.items():
            fit.add(judge, label, count)
        return fit

    def add(self, judge: Judge, label: str, count: int = 1) -> None:
        if judge.label_map.accepts(label):
            self.known += count
        else:
            self.unknown += count

    @property
    def is_sufficient(self) -> bool:
        return self.known >= MIN_KNOWN_RATIO * self.unknown


def fits_model(judge: Judge, counts: ArrivalCounts) -> bool:
    """Whether sentences of the dataset are judged, by the labels that have arrived."""
    return not may_wait(judge.settings) or LabelFit.from_counts(judge, counts).is_sufficient


def find_waiting(judge: Judge, counts: ArrivalCounts) -> WaitingDataset | None:
    """The dataset as it waits; None if nothing of it is stored."""
    if not counts.waiting:
        return None
    unknown = {
        label: count
        for label, count in sorted(counts.labels.items(), key=lambda item: (-item[1], item[0]))
        if label != OTHER_LABELS and not judge.label_map.accepts(label)
    }
    name, fits = judge.settings.name, fits_model(judge, counts)
    advice = "" if fits or not unknown else judge.label_map.explain_unknown(next(iter(unknown)))
    return WaitingDataset(name, counts.waiting, unknown, fits, advice)
