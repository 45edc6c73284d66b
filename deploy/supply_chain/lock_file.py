"""The packages that a lock file pins."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)(?:\s*;\s*(?P<marker>[^\\]+))?")


class PinnedPackage(NamedTuple):
    name: str  # normalised: lower case, hyphens
    version: str
    marker: str | None  # the environments that need it; None: all


def normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(path: Path) -> list[PinnedPackage]:
    matches = filter(None, map(_PIN.match, path.read_text().splitlines()))
    return [
        PinnedPackage(normalize_name(match["name"]), match["version"], (match["marker"] or "").strip() or None)
        for match in matches
    ]
