"""Running state: sums, counts and histograms that merge to the bit. No I/O, no clock."""

from __future__ import annotations

from service.statistics.class_stats import SCALE, ClassStats
from service.statistics.histogram import EVERYTHING, PriorityHistogram
from service.statistics.running import UNDATED, RunningStats, day_of
from service.statistics.thresholds import MIN_WORDS, PRIOR_WORDS, HeldOut, flag_thresholds, priority_weights, warming_up

__all__ = [
    "EVERYTHING",
    "MIN_WORDS",
    "PRIOR_WORDS",
    "SCALE",
    "UNDATED",
    "ClassStats",
    "HeldOut",
    "PriorityHistogram",
    "RunningStats",
    "day_of",
    "flag_thresholds",
    "priority_weights",
    "warming_up",
]
