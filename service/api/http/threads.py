"""Blocking work of a request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def run_in_thread(function: Callable[..., T], *arguments: object, **named: object) -> T:
    """Runs work that waits for a disk or a broker outside the event loop. A cancelled caller stops waiting for it."""
    return await anyio.to_thread.run_sync(partial(function, *arguments, **named), abandon_on_cancel=True)
