"""Reading back state: the time per record with 1,000 datasets over that with 100, as a worker applies foreign records.

Each dataset has statistics in six partitions, of realistic size: 9 classes, and a histogram of 2,000 sentences. Totals of
all datasets are asked for at the end, since a worker needs them for its metrics.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import numpy as np

from service.log.codec import to_state_key
from service.statistics.running import RunningStats
from service.stream.state.reader import apply_state_record, read_state_record
from service.stream.state.snapshot import StateSnapshot, StatsKey

ROUNDS = 5
N_CLASSES = 9
N_PARTITIONS = 6
N_SENTENCES = 2_000
RECORDS_PER_POLL = 500  # as a Kafka consumer delivers them by default
TOPIC = "labelwatch.state"

Records = list[tuple[bytes, bytes]]


def run() -> list[dict[str, Any]]:
    sizes = (100, 1_000)
    records = {size: build_records(size) for size in sizes}
    measured: dict[int, list[float]] = {size: [] for size in sizes}
    single: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(ROUNDS):
        for size in sizes:
            seconds, snapshot = measure_restore(records[size])
            measured[size].append(seconds)
            single[size].append(measure_single_records(snapshot, records[size][:200]))
    per_record = {size: statistics.median(measured[size]) / len(records[size]) for size in sizes}
    return [
        {
            "name": "state_restore_1000_vs_100",
            "ratio": per_record[1_000] / per_record[100],
            "detail": {
                "what": "time per state record read back, with 1,000 datasets over 100; lower is better",
                "goal": 1.5,
                "seconds_for_1000_datasets_of_6_partitions": statistics.median(measured[1_000]),
                "microseconds_per_record": {size: 1e6 * seconds for size, seconds in per_record.items()},
                "microseconds_per_record_polled_alone": {
                    size: 1e6 * statistics.median(seconds) for size, seconds in single.items()
                },
                "bytes_per_record": len(records[1_000][0][1]),
                "threads": 1,
                "rounds": ROUNDS,
                "ratios": [
                    many / few * len(records[100]) / len(records[1_000])
                    for few, many in zip(measured[100], measured[1_000], strict=True)
                ],
            },
        }
    ]


def build_records(n_datasets: int) -> Records:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([0.1] * N_CLASSES, 10 * N_SENTENCES)
    given = rng.integers(0, N_CLASSES, len(probs))
    stats = RunningStats.empty(N_CLASSES).update(probs, given, priority=rng.beta(3.0, 0.2, N_SENTENCES))
    value = json.dumps(stats.snapshot(), separators=(",", ":")).encode()
    return [
        (to_state_key(partition, f"dataset-{number}", "key/0"), value)
        for partition in range(N_PARTITIONS)
        for number in range(n_datasets)
    ]


def apply_records(snapshot: StateSnapshot, records: Records) -> StateSnapshot:
    draft = snapshot.start_draft()
    for key, value in records:
        record = read_state_record(TOPIC, key, value)
        if record is not None:
            apply_state_record(draft, TOPIC, record)
    return draft.to_snapshot()


def measure_restore(records: Records) -> tuple[float, StateSnapshot]:
    started = time.process_time()
    snapshot = StateSnapshot()
    for start in range(0, len(records), RECORDS_PER_POLL):
        snapshot = apply_records(snapshot, records[start : start + RECORDS_PER_POLL])
    for key in snapshot.keys:
        snapshot.get_total(key, None)
    return time.process_time() - started, snapshot


def measure_single_records(snapshot: StateSnapshot, records: Records) -> float:
    """Seconds for a record that arrives alone, with the new total of its key."""
    started = time.process_time()
    for key, value in records:
        snapshot = apply_records(snapshot, [(key, value)])
        _, _, dataset, stats_key = json.loads(key)
        snapshot.get_total(StatsKey(dataset, stats_key), None)
    return (time.process_time() - started) / len(records)
