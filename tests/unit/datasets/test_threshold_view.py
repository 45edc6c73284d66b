"""What sentences of a dataset are judged with now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.contracts import DatasetSettings
from service.datasets.threshold_view import build_threshold_view

if TYPE_CHECKING:
    from service.datasets.registry import DatasetRegistry


def test_the_view_shows_the_thresholds_of_the_judge(registry: DatasetRegistry) -> None:
    settings = DatasetSettings.model_validate(
        {"name": "news", "version": 3, "epoch": 1, "flag_policy": {"kind": "budget", "share": 0.5}}
    )
    judge = registry.build_judge(settings)
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(len(judge.classes)), 50)
    given = np.zeros(50, np.intp)
    stats = judge.create_empty_stats().update(probs, given, day="", priority=np.linspace(0.01, 0.99, 50))
    view = build_threshold_view(judge, stats)
    thresholds = judge.build_threshold_set(stats)
    assert (view.dataset, view.version, view.epoch, view.sentences) == ("news", 3, 1, 50)
    assert view.flag_policy == settings.flag_policy
    assert view.cutoff == thresholds.flag_cutoff is not None
    assert {threshold.name: threshold.threshold for threshold in view.classes} == thresholds.by_class
    assert [threshold.own_words for threshold in view.classes] == [50, *[0] * (len(judge.classes) - 1)]
    assert [threshold.warming_up for threshold in view.classes] == [False, *[True] * (len(judge.classes) - 1)]


def test_without_statistics_the_thresholds_are_the_priors(registry: DatasetRegistry) -> None:
    judge = registry.build_judge(DatasetSettings(name="news"))
    view = build_threshold_view(judge, judge.create_empty_stats())
    assert all(threshold.threshold == threshold.prior and threshold.warming_up for threshold in view.classes)
    assert view.cutoff is None
