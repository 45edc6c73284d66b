"""What a change of settings means for a dataset: a new one, stored sentences, another model, other statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.datasets.registry import find_similar_name
from service.datasets.waiting import explain_waiting, find_waiting
from service.errors import MissingModelError
from service.inference.model.pool import shorten_fingerprint
from service.stream.state.snapshot import StatsKey
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.datasets.changes import SettingsChange
    from service.datasets.registry import DatasetRegistry
    from service.judging.judge import Judge
    from service.stream.state.snapshot import StateSnapshot


def describe_change(change: SettingsChange, registry: DatasetRegistry, snapshot: StateSnapshot) -> Iterator[str]:
    """Lines about a change that is written. `registry` has the settings before it."""
    name = change.settings.name
    names = registry.list_names(snapshot.datasets)
    if name not in names:
        similar = find_similar_name(name, names)
        yield f"{name} is a new dataset{'' if similar is None else f'. Did you mean {similar}?'}"
    before = _find_judge(registry, name)
    if change.chooses_model:
        model = change.settings.model or "the default model"
        yield f"{name} is judged by {model} ({shorten_fingerprint(change.judge.model.fingerprint)})"
    stored = find_waiting(change.judge, snapshot.get_arrivals(name).total)
    if stored is not None and stored.fits:
        yield f"the worker judges the {pluralize(stored.sentences, 'stored sentence')} of {name} now"
    elif stored is not None:
        yield explain_waiting(stored)
    if before is not None and before.stats_key != change.judge.stats_key:
        yield from _describe_statistics(before, change.judge, snapshot)


def _find_judge(registry: DatasetRegistry, name: str) -> Judge | None:
    """The judge before the change; None if its model is missing."""
    try:
        return registry.build_judge(registry.get_settings_state(name).in_force)
    except MissingModelError:
        return None


def _describe_statistics(before: Judge, after: Judge, snapshot: StateSnapshot) -> Iterator[str]:
    learned, known = (snapshot.get_stats(judge).histogram.total for judge in (before, after))
    if known:
        yield f"the statistics of {pluralize(known, 'sentence')} that were learned with these settings before continue"
    elif StatsKey.from_judge(before) in snapshot.keys:
        yield (
            f"what judges has changed: the statistics of {before.settings.name} start anew; those of "
            f"{pluralize(learned, 'sentence')} stay, for a change back"
        )
