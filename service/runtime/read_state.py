"""Reads the state topic to its end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import StateError
from service.log.codec import parse_position, parse_state_key
from service.log.read import read_compacted_topic
from service.statistics.running import RunningStats
from service.stream.state.snapshot import StateSnapshot, StatsKey

if TYPE_CHECKING:
    from service.log.protocol import Log
    from service.log.topics import Topics


@dataclass(frozen=True, slots=True)
class RestoredState:
    """What the state topic holds: everybody's statistics, and where each partition goes on."""

    snapshot: StateSnapshot
    positions: dict[int, int]


def read_state(log: Log, topics: Topics) -> RestoredState:
    ledger, positions = StateSnapshot(), {}
    for key, record in read_compacted_topic(log, topics.state).items():
        place, value = parse_state_key(key), record.value or b""
        if place is None:
            positions[int(json.loads(key)[1])] = parse_position(value)
            continue
        partition, dataset, stats_key = place
        try:
            stats = RunningStats.restore(json.loads(value))
        except ValueError as error:
            raise StateError(f"the statistics of {dataset} in {topics.state} are not JSON: {error}") from error
        ledger = ledger.with_stats(partition, StatsKey(dataset, stats_key), stats)
    return RestoredState(ledger, positions)
