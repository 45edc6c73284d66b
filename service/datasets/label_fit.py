"""Whether the model that a change chooses fits the labels that the dataset has received."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.datasets.waiting import LabelFit, find_unknown_labels
from service.errors import InvalidInput
from service.labels.unknown_labels import format_names, truncate_label

if TYPE_CHECKING:
    from service.datasets.changes import SettingsChange
    from service.statistics.arrivals import ArrivalCounts


def check_model_fits(change: SettingsChange, counts: ArrivalCounts) -> None:
    """Raises an error if the change chooses a model that would reject the sentences that arrive.

    The rule is the one by which a dataset waits: few labels without a class may be typing errors. The default model is
    not checked, because a dataset that it does not fit waits.
    """
    settings, judge = change.settings, change.judge
    if not change.chooses_model or settings.model is None or settings.unmapped != "reject":
        return
    if LabelFit.from_counts(judge, counts).is_sufficient:
        return
    unknown = [f"{truncate_label(label)} ({count:,})" for label, count in find_unknown_labels(judge, counts).items()]
    raise InvalidInput(
        f"{settings.model!r} has no class for most labels of {settings.name}. Labels without a class, with their "
        f"sentences: {format_names(unknown)}. Labels of the model: {format_names(judge.source_classes)}. Choose a model for "
        "these labels, or map them (label_map) or set unmapped=unscored in the same change",
        field="model",
    )
