"""Datasets that no model fits: their sentences wait, which means that they are stored until the dataset has a model.

A label without a class may be a typing error in a dataset that fits, or a type that the model does not know. The labels
that have arrived so far tell: a dataset fits if labels with a class are at least `MIN_KNOWN_RATIO` times as frequent as
labels without one. Both are counted in sentences that contain the label. "O" does not count, nor do labels outside the
dataset's label set, if its settings name one: those are always rejected.

A dataset whose settings name a model, or let unmapped labels be unscored, never waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from service.errors import MissingModelError
from service.labels.unknown_labels import truncate_label
from service.statistics.arrivals import OTHER_LABELS
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.contracts import DatasetSettings
    from service.judging.judge import Judge
    from service.statistics.arrivals import ArrivalCounts

MIN_KNOWN_RATIO = 4
MAX_LISTED_LABELS = 5  # in a text


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
    """Whether the dataset needs a model that has a class for its labels, and names none."""
    return settings.model is None and settings.unmapped == "reject"


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
        elif judge.label_map.lacks_class(label):
            self.unknown += count

    @property
    def is_sufficient(self) -> bool:
        return self.known >= MIN_KNOWN_RATIO * self.unknown


def fits_model(judge: Judge, counts: ArrivalCounts) -> bool:
    """Whether sentences of the dataset are judged, by the labels that have arrived."""
    return not may_wait(judge.settings) or LabelFit.from_counts(judge, counts).is_sufficient


def find_unknown_labels(judge: Judge, counts: ArrivalCounts) -> dict[str, int]:
    """The labels that arrived and have no class, with the number of their sentences, most frequent first."""
    return {
        label: count
        for label, count in sorted(counts.labels.items(), key=lambda item: (-item[1], item[0]))
        if label != OTHER_LABELS and judge.label_map.lacks_class(label)
    }


def find_waiting(judge: Judge, counts: ArrivalCounts) -> WaitingDataset | None:
    """The dataset as it waits; None if nothing of it is stored."""
    if not counts.waiting:
        return None
    unknown = find_unknown_labels(judge, counts)
    name, fits = judge.settings.name, fits_model(judge, counts)
    advice = "" if fits or not unknown else _to_sentence(judge.label_map.explain_unknown(next(iter(unknown))))
    return WaitingDataset(name, counts.waiting, unknown, fits, advice)


def _to_sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def explain_waiting(waiting: WaitingDataset) -> str:
    """How many sentences wait, for which labels, and what to do."""
    sentences = pluralize(waiting.sentences, "sentence")
    if waiting.fits:
        return f"{sentences} of {waiting.name} that waited for a model are being judged"
    waits = "waits" if waiting.sentences == 1 else "wait"
    text = f"{sentences} of {waiting.name} {waits} for a model"
    if not waiting.unknown_labels:
        return f"{text}. {waiting.advice}" if waiting.advice else text
    listed = islice(waiting.unknown_labels.items(), MAX_LISTED_LABELS)
    names = ", ".join(f"{truncate_label(label)} ({count:,})" for label, count in listed)
    unlisted = len(waiting.unknown_labels) - MAX_LISTED_LABELS
    more = f" and {unlisted} more" if unlisted > 0 else ""
    return f"{text}: labels without a class are {names}{more}. {waiting.advice}"


class WaitingDatasets:
    """Finds the datasets with stored sentences. Any thread may use it.

    A worker asks in every step, and a dataset with 1,000 labels takes 2 to 10 ms. So an answer is used again until the
    dataset's judge or its counts are other objects.
    """

    def __init__(self, get_judge: Callable[[str], Judge]) -> None:
        """`get_judge` raises `MissingModelError` if the model that the settings name is missing."""
        self._get_judge = get_judge
        self._found: dict[str, tuple[Judge, ArrivalCounts, WaitingDataset | None]] = {}

    def list_all(self, totals: Mapping[str, ArrivalCounts]) -> tuple[WaitingDataset, ...]:
        """By name. `totals`: what has arrived in each dataset from all partitions."""
        waiting = sorted(name for name, counts in totals.items() if counts.waiting)
        found = [self.find(name, totals[name]) for name in waiting]
        answers = self._found
        self._found = {name: answers[name] for name in waiting if name in answers}
        return tuple(each for each in found if each is not None)

    def find(self, name: str, counts: ArrivalCounts) -> WaitingDataset | None:
        """As `find_waiting`. If the model that the settings name is missing, the dataset waits for it."""
        if not counts.waiting:
            return None
        try:
            judge = self._get_judge(name)
        except MissingModelError as error:
            return WaitingDataset(name, counts.waiting, {}, fits=False, advice=_to_sentence(str(error)))
        before = self._found.get(name)
        if before is not None and before[0] is judge and before[1] is counts:
            return before[2]
        waiting = find_waiting(judge, counts)
        self._found[name] = judge, counts, waiting
        return waiting
