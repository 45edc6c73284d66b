"""What other threads see of a worker: its counts and its readiness."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.log.protocol import BatchResult


@dataclass(slots=True)
class WorkerCounts:
    """Records, batches and outputs since the worker started."""

    records: int = 0
    committed_batches: int = 0
    refused_batches: int = 0
    outputs: dict[str, int] = field(default_factory=dict)
    lost_records: int = 0

    def add_batch(self, result: BatchResult) -> None:
        self.records += result.batch.polled_records
        self.committed_batches += 1
        for output in result.outputs:
            if output.value is not None:  # tombstones say that stored sentences are judged, not that some are stored
                self.outputs[output.topic] = self.outputs.get(output.topic, 0) + 1


@dataclass(slots=True)
class WorkerStatus:
    """Readiness: each condition by name, with the reason why it is not met, or empty text if it is.

    `degraded` has, in the same form, what the worker waits for or does without. It does not affect readiness.
    """

    conditions: dict[str, str] = field(
        default_factory=lambda: {
            "datasets": "the dataset settings are not read yet",
            "state": "the state is not read yet",
            "partitions": "no partition is assigned yet",
            "models": "",
        }
    )

    degraded: dict[str, str] = field(default_factory=lambda: {"stream": "", "waiting": ""})

    def mark_met(self, name: str) -> None:
        self.conditions[name] = ""

    def mark_unmet(self, name: str, reason: str) -> None:
        self.conditions[name] = reason

    @property
    def ready(self) -> bool:
        return not any(self.conditions.values())
