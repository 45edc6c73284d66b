"""Reading snapshots back: every way in which one can be broken ends in a StateError that says which."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from service.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping

SNAPSHOT_VERSION = 1

MAX_COUNT = 2**53
"""Larger counts can't be real; up to here every JSON reader is exact, and no int64 sum of ours overflows."""


def is_count(value: object) -> TypeGuard[int]:
    """True for an integer ≥ 0; JSON's true and 1.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_snapshot_fields(snapshot: object, fields: tuple[str, ...], what: str) -> Mapping[str, object]:
    """The snapshot's fields once its version and its names are right.

    Unknown names are refused: whoever restores a record writes it again in full, and would drop them.
    """
    if not isinstance(snapshot, dict):
        raise StateError(f"the snapshot of {what} should be an object, it is {type(snapshot).__name__}")
    version = snapshot.get("version")
    if not is_count(version) or version == 0:
        raise StateError(f"the snapshot of {what} has no readable version (found {version!r})")
    if version > SNAPSHOT_VERSION:
        raise StateError(
            f"the snapshot of {what} has version {version}, which a newer labelwatch wrote; "
            f"this one reads up to version {SNAPSHOT_VERSION}: upgrade it, or start from an older snapshot"
        )
    missing = [name for name in fields if name not in snapshot]
    unknown = sorted(str(name) for name in snapshot if name != "version" and name not in fields)
    if missing or unknown:
        problem = f"lacks {', '.join(missing)}" if missing else f"has unknown fields {', '.join(unknown)}"
        raise StateError(f"the snapshot of {what} {problem}")
    return snapshot


def read_counts(value: object, what: str) -> tuple[int, ...]:
    """A list of integers ≥ 0."""
    if not isinstance(value, list) or not all(is_count(item) for item in value):
        raise StateError(f"{what} should be a list of integers that are not negative")
    return tuple(value)
