"""Running statistics: sums, counts and histograms that merge exactly. No I/O, no clock."""

from __future__ import annotations

from service.statistics.class_stats import SCALE, ClassStats
from service.statistics.histogram import CUTOFF_ALL, PriorityHistogram
from service.statistics.running import UNDATED, RunningStats, to_bucket_day
from service.statistics.thresholds import (
    HeldOutStats,
    compute_flag_thresholds,
    compute_priority_weights,
    find_warming_up,
)

__all__ = [
    "CUTOFF_ALL",
    "SCALE",
    "UNDATED",
    "ClassStats",
    "HeldOutStats",
    "PriorityHistogram",
    "RunningStats",
    "compute_flag_thresholds",
    "compute_priority_weights",
    "find_warming_up",
    "to_bucket_day",
]
