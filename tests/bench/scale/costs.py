"""What a worker's steps take, as measured: the input of the simulation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from service.settings.kafka import KafkaSettings

COSTS_PATH = Path(__file__).with_name("costs.json")
# What a worker has that nobody configures.
DEFAULT_HEARTBEAT_S: float = KafkaSettings.model_fields["heartbeat_interval_ms"].default / 1000
DEFAULT_SESSION_TIMEOUT_S: float = KafkaSettings.model_fields["session_timeout_ms"].default / 1000


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds, unless the name says otherwise. A batch takes `batch_s + sentences · sentence_s`, and its commit `commit_s`."""

    sentence_s: float
    batch_s: float
    commit_s: float
    # Every worker reads the state that the others commit.
    state_record_s: float
    state_records: float  # of one partition in a batch, that others must apply
    # A rebalance: from the last member's request to the assignment, then the state of the first and of each further partition.
    join_s: float
    restore_s: float
    restore_partition_s: float
    state_bytes: float = 0.0  # of one partition in a batch, all records
    sentence_cv: float = 0.0  # how much sentences differ: standard deviation over mean
    heartbeat_s: float = DEFAULT_HEARTBEAT_S
    session_timeout_s: float = DEFAULT_SESSION_TIMEOUT_S
    poll_timeout_s: float = 0.5
    initial_batch: int = 128
    max_batch: int = 1024
    target_batch_s: float = 10.0

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < 0:
                raise ValueError(f"`{each.name}` must not be negative")

    @classmethod
    def read(cls, path: Path = COSTS_PATH) -> Self:
        """The costs of a file. It may have further entries, such as how they were measured."""
        given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        names = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in names})

    def to_json(self) -> dict[str, float]:
        return asdict(self)
