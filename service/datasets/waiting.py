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
    return settings.label_set is None and settings.unmapped == "reject"


def fits_model(judge: Judge, counts: ArrivalCounts) -> bool:
    """Whether sentences of the dataset are judged, by the labels that have arrived."""
    if not may_wait(judge.settings):
        return True
    unknown = sum(count for label, count in counts.labels.items() if not judge.label_map.accepts(label))
    known = sum(counts.labels.values()) - unknown
    return known >= MIN_KNOWN_RATIO * unknown


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
