"""Versions of the JSON that statistics are stored as, and reading it back.

A state record nests three formats: running statistics, class statistics per day, and the priority histogram. Each has a
version of its own. The rule for a rolling upgrade, in which workers of two releases share one state topic:

- A change that an older worker may ignore raises `version`, keeps `min_reader` and adds the new fields to `optional`.
  Older workers read the record, ignore the fields they don't know, and write it back without them.
- A change that an older worker would misread raises `min_reader` too. Older workers stop with `NewerStateError`.
- A record without `min_reader` needs a reader of its own `version`; so records of 0.1.0 stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from service.errors import NewerStateError, StateError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_COUNT = 2**53
"""Larger counts can't be real. Up to here every JSON reader is exact, and no int64 sum of ours overflows."""


def is_count(value: object) -> TypeGuard[int]:
    """True for an integer ≥ 0; JSON's true and 1.0 are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True, slots=True)
class SnapshotFormat:
    """One of the nested formats: the version we write, the oldest version that can read it, and the fields."""

    name: str
    version: int
    fields: tuple[str, ...]
    optional: tuple[str, ...] = ()  # fields of later versions, which records of earlier ones lack
    min_reader: int | None = None  # None: the same as `version`

    def write(self, fields: Mapping[str, object]) -> dict[str, object]:
        """The JSON object: the version and the fields. Without optional fields it is what `min_reader` itself wrote."""
        if self.min_reader is None:
            return {"version": self.version, **fields}
        if fields.keys().isdisjoint(self.optional):
            return {"version": self.min_reader, **fields}
        return {"version": self.version, "min_reader": self.min_reader, **fields}

    def read(self, snapshot: object) -> Mapping[str, object]:
        """The fields of a JSON object whose version we can read.

        Fields that we don't know are an error unless a newer version wrote them: we would drop them when we write the
        record again.
        """
        if not isinstance(snapshot, dict):
            raise StateError(f"the snapshot of {self.name} should be an object, it is {type(snapshot).__name__}")
        version = snapshot.get("version")
        if not is_count(version) or version == 0:
            raise StateError(f"the snapshot of {self.name} has no readable version (found {version!r})")
        min_reader = snapshot.get("min_reader", version)
        if not is_count(min_reader) or not 0 < min_reader <= version:
            raise StateError(f"`min_reader` of {self.name} should be from 1 to {version}, it is {min_reader!r}")
        if min_reader > self.version:
            raise NewerStateError(
                f"the snapshot of {self.name} has version {version}, which a newer labelwatch wrote and which needs a "
                f"reader of version {min_reader}; this labelwatch reads version {self.version}"
            )
        missing = [name for name in self.fields if name not in snapshot]
        known = {"version", "min_reader", *self.fields, *self.optional}
        unknown = sorted(str(name) for name in snapshot if name not in known) if version <= self.version else []
        if missing or unknown:
            problem = f"lacks {', '.join(missing)}" if missing else f"has unknown fields {', '.join(unknown)}"
            raise StateError(f"the snapshot of {self.name} {problem}")
        return snapshot


def read_counts(value: object, field: str) -> tuple[int, ...]:
    """A list of integers ≥ 0."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int} or min(value, default=0) < 0:
        raise StateError(f"{field} should be a list of integers that are not negative")
    return tuple(value)
