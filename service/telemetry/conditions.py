"""Conditions of readiness, as several parts of a process tell them: by name why one does not hold, empty where it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def merge_conditions(*sources: Mapping[str, str | None]) -> dict[str, str]:
    """By name all that is told of it: one who sees no trouble does not silence another who does."""
    found: dict[str, list[str]] = {}
    for part in sources:
        for name, why in part.items():
            reasons = found.setdefault(name, [])
            if why and why not in reasons:
                reasons.append(why)
    return {name: "; ".join(reasons) for name, reasons in found.items()}
