"""Whether a process is ready: conditions by name, each with the reason why it does not hold, or an empty text.

The worker's probe server and the API answer `/readyz` with the same `Readiness`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from pydantic import BaseModel, Field

Conditions = Callable[[], Mapping[str, str]]


class Readiness(BaseModel):
    """Ready if every condition holds. What is degraded does not work now, and the rest does."""

    ready: bool
    conditions: dict[str, str] = Field(description="By name why a condition does not hold; empty if it holds")
    degraded: dict[str, str] = Field(description="What does not work now, and why; everything else does")

    @classmethod
    def evaluate(cls, conditions: Mapping[str, str], degraded: Mapping[str, str]) -> Self:
        return cls(
            ready=not any(conditions.values()),
            conditions=dict(conditions),
            degraded={name: reason for name, reason in degraded.items() if reason},
        )


def merge_conditions(*sources: Mapping[str, str | None]) -> dict[str, str]:
    """Joins the reasons by name: a source in which a condition holds does not hide another's reason."""
    reasons: dict[str, list[str]] = {}
    for source in sources:
        for name, reason in source.items():
            known = reasons.setdefault(name, [])
            if reason and reason not in known:
                known.append(reason)
    return {name: "; ".join(known) for name, known in reasons.items()}
