"""Seeded mutations of bytes and of JSON, and the shortest input that still fails."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

MAX_BYTES = 50_000
MAX_ATTEMPTS = 300  # of making a failing input shorter
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 3.5, 2**63, 10**400, 1e308, float("nan"), "", "x", "\ud83d", "\0", "\u202e", "9" * 5_000, "a" * 20_000,
    [], {}, [[]], [{}], {"id": 1}, [None] * 2_000, "2026-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00", "=1+1",
)  # fmt: skip
ODD_BYTES = (
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r",
    b"\n\n",
    b'"',
    b"{" * 2_000,
    b"[" * 100_000,
    b"\t",
    b"1" * 5_000,
    b"NaN",
    b"\\ud800",
)


def mutate(data: bytes, random: random.Random) -> bytes:
    """The input with one to four changes: of its values if it is JSON, else, and sometimes then too, of its bytes."""
    for _ in range(random.randint(1, 4)):
        changed = _mutate_json(data, random) if random.random() < 0.6 else None
        data = (_mutate_bytes(data, random) if changed is None else changed)[:MAX_BYTES]
    return data


def _mutate_json(data: bytes, random: random.Random) -> bytes | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    holder: Any = value
    while True:
        places = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not places:
            break
        place = random.choice(places)
        inner = holder[place]
        if isinstance(inner, dict | list) and inner and random.random() < 0.7:
            holder = inner
            continue
        action = random.random()
        if action < 0.2:
            del holder[place]
        elif action < 0.3 and isinstance(holder, list):
            holder.append(inner)
        else:
            holder[place] = random.choice(ODD_VALUES)
        break
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return None


def _mutate_bytes(data: bytes, random: random.Random) -> bytes:
    start = random.randint(0, len(data))
    end = min(len(data), start + random.choice((0, 1, 2, 8, 64)))
    kind = random.random()
    if kind < 0.3:
        return data[:start] + data[end:]
    if kind < 0.6:
        return data[:start] + random.choice(ODD_BYTES) + data[end:]
    if kind < 0.8:
        return data[:start] + random.randbytes(random.randint(1, 8)) + data[end:]
    return data[:end] + data[start:end] * random.choice((1, 2, 100)) + data[end:]


def shorten(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """Removes parts as long as the rest fails."""
    attempts, size = 0, max(1, len(data) // 2)
    while size and attempts < MAX_ATTEMPTS:
        start, shortened = 0, False
        while start < len(data) and attempts < MAX_ATTEMPTS:
            attempts += 1
            candidate = data[:start] + data[start + size :]
            if fails(candidate):
                data, shortened = candidate, True
            else:
                start += size
        if not shortened:
            size //= 2
    return data
