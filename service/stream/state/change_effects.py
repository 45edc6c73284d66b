"""What a change of settings means for a dataset: a new one, stored or rejected sentences, other statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from service.datasets.registry import find_similar_name
from service.datasets.waiting import explain_waiting, find_unknown_labels, find_waiting, fits_model
from service.errors import MissingModelError
from service.inference.model.pool import shorten_fingerprint
from service.labels.unknown_labels import format_names, truncate_label
from service.stream.state.snapshot import StatsKey
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from service.contracts import DatasetSettings
    from service.datasets.changes import SettingsChange
    from service.judging.judge import Judge
    from service.statistics.arrivals import ArrivalCounts
    from service.stream.state.snapshot import StateSnapshot

EffectKind = Literal["new_dataset", "model", "released", "waiting", "rejected", "statistics"]


class ChangeEffect(NamedTuple):
    """One consequence of a change. `warning`: sentences are not judged, or not as before, because of it."""

    kind: EffectKind
    text: str
    warning: bool = False


def find_effects(
    change: SettingsChange,
    before: DatasetSettings,
    snapshot: StateSnapshot,
    *,
    names: Collection[str],
    build_judge: Callable[[DatasetSettings], Judge],
) -> list[ChangeEffect]:
    """`before`: the settings in force. `names`: all datasets that are known without the change."""
    return list(_iterate_effects(change, _try_judge(before, build_judge), snapshot, sorted(names)))


def _try_judge(settings: DatasetSettings, build_judge: Callable[[DatasetSettings], Judge]) -> Judge | None:
    try:
        return build_judge(settings)
    except MissingModelError:
        return None


def _iterate_effects(
    change: SettingsChange, before: Judge | None, snapshot: StateSnapshot, names: list[str]
) -> Iterator[ChangeEffect]:
    name, after = change.settings.name, change.judge
    if name not in names:
        similar = find_similar_name(name, names)
        yield ChangeEffect(
            "new_dataset",
            f"{name} is a new dataset{'' if similar is None else f'. Did you mean {similar}?'}",
            warning=similar is not None,
        )
    if change.chooses_model:
        model = change.settings.model or "the default model"
        yield ChangeEffect("model", f"{name} is judged by {model} ({shorten_fingerprint(after.model.fingerprint)})")
    counts = snapshot.get_arrivals(name).total
    yield from _describe_waiting(before, after, counts)
    rejected = _find_rejected(after, counts)
    new = {label: count for label, count in rejected.items() if before and label not in _find_rejected(before, counts)}
    if new:
        yield ChangeEffect(
            "rejected",
            f"new sentences of {name} with these labels are dead letters: {_format_counts(new)}",
            warning=True,
        )
    if before is not None and before.stats_key != after.stats_key:
        yield from _describe_statistics(before, after, snapshot)


def _describe_waiting(before: Judge | None, after: Judge, counts: ArrivalCounts) -> Iterator[ChangeEffect]:
    name, stored = after.settings.name, find_waiting(after, counts)
    if stored is not None and stored.fits:
        yield ChangeEffect(
            "released", f"the worker judges the {pluralize(stored.sentences, 'stored sentence')} of {name} now"
        )
    elif stored is not None:
        yield ChangeEffect("waiting", explain_waiting(stored), warning=True)
    elif not fits_model(after, counts) and (before is None or fits_model(before, counts)):
        unknown = find_unknown_labels(after, counts)
        yield ChangeEffect(
            "waiting",
            f"new sentences of {name} will wait for a model: they are stored and not judged, because the default model has "
            f"no class for {_format_counts(unknown)}. Set `model` to one that has, or map the labels",
            warning=True,
        )


def _find_rejected(judge: Judge, counts: ArrivalCounts) -> dict[str, int]:
    """Labels that have arrived whose sentences are rejected."""
    fits = fits_model(judge, counts)
    return {
        label: count
        for label, count in counts.labels.items()
        if not judge.label_map.accepts(label) and (fits or not judge.label_map.lacks_class(label))
    }


def _format_counts(labels: Mapping[str, int]) -> str:
    return format_names([f"{truncate_label(label)} ({count:,})" for label, count in labels.items()])


def _describe_statistics(before: Judge, after: Judge, snapshot: StateSnapshot) -> Iterator[ChangeEffect]:
    learned, known = (snapshot.get_stats(judge).histogram.total for judge in (before, after))
    if known:
        yield ChangeEffect(
            "statistics",
            f"the statistics of {pluralize(known, 'sentence')} that were learned with these settings before continue",
        )
    elif StatsKey.from_judge(before) in snapshot.keys:
        yield ChangeEffect(
            "statistics",
            f"what judges has changed: the statistics of {before.settings.name} start anew; those of "
            f"{pluralize(learned, 'sentence')} stay, for a change back",
        )
