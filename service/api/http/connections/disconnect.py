"""Stops the work for a client that has disconnected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import ClientDisconnect

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from starlette.types import Receive

T = TypeVar("T")


async def cancel_on_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Awaits the work; raises `ClientDisconnect` if the client leaves first. The body must have been read."""
    task = asyncio.current_task()
    disconnected = False

    async def watch() -> None:
        nonlocal disconnected
        while (await receive())["type"] != "http.disconnect":
            pass
        disconnected = True
        if task is not None:
            task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if disconnected and task is not None:
            task.uncancel()
            raise ClientDisconnect from None
        raise
    finally:
        watcher.cancel()
