"""What a caller of the batcher gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.inference.classifier import InferenceResult


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time of a request went, in seconds."""

    queue: float = 0.0
    tokenize: float = 0.0
    inference: float = 0.0

    @classmethod
    def sum(cls, timings: Iterable[Timing]) -> Timing:
        total = cls()
        for timing in timings:
            total = cls(
                total.queue + timing.queue, total.tokenize + timing.tokenize, total.inference + timing.inference
            )
        return total


@dataclass(frozen=True, slots=True)
class BatchedInference:
    """One answer per sentence, in their order."""

    answers: Sequence[InferenceResult]
    timing: Timing
