"""Live updates of the queue, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from service.api.access.authenticator import is_still_known
from service.api.access.caller import Caller
from service.api.backend import Backend
from service.api.dependencies import BackendDep, CallerDep, DatasetQuery
from service.api.http.problems import OverloadedError
from service.api.http.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from starlette.types import Receive, Scope, Send

router = APIRouter(tags=["review"])

POLL_INTERVAL_S = 1.0
HEARTBEAT_INTERVAL_S = 15.0
MAX_LISTENERS = 1_000

Selection: TypeAlias = "tuple[str, ...] | None"  # the datasets that count; None: all


class QueueWatcher:
    """The events of the queue, shared by all listeners: one query and one text per version and dataset, however many listen."""

    def __init__(self, backend: Backend, *, poll_interval: float = POLL_INTERVAL_S) -> None:
        self._backend = backend
        self.poll_interval = poll_interval
        self.listeners = 0
        self._events: dict[tuple[str | None, Selection], tuple[int, str]] = {}
        self._lock = asyncio.Lock()

    @contextmanager
    def add_listener(self) -> Iterator[None]:
        """Counts the listener for the time of the block. Raises OverloadedError above MAX_LISTENERS."""
        if self.listeners >= MAX_LISTENERS:
            raise OverloadedError(f"{MAX_LISTENERS} clients listen already: poll GET /v1/review instead")
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    @property
    def version(self) -> int:
        return self._backend.queue.version

    async def get_event(self, dataset: str | None, datasets: Selection) -> tuple[int, str]:
        """The version of the queue, and the event with its counts. `dataset`: as the listener named it."""
        key = dataset, datasets if dataset is None else (dataset,)
        async with self._lock:
            version = self.version
            event = self._events.get(key)
            if event is not None and event[0] == version:
                return event
            if len(self._events) > MAX_LISTENERS:
                self._events.clear()
            counts = await run_in_thread(self._backend.queue.count_items, key[1])
            data = {"dataset": dataset, "version": version, "counts": counts}
            event = self._events[key] = (version, f"event: queue\ndata: {json.dumps(data)}\n\n")
            return event


async def stream_queue_events(
    backend: Backend,
    watcher: QueueWatcher,
    dataset: str | None,
    datasets: Selection = None,
    *,
    may_listen: Callable[[], bool] = lambda: True,
) -> AsyncIterator[str]:
    """One event at the start, one for every change, and a comment as a heartbeat in between.

    The stream ends when `may_listen` says so: the key of the listener was revoked or changed.
    """
    sent_version: int | None = None
    sent_at = time.monotonic()
    yield "retry: 3000\n\n"
    while not backend.draining.is_set() and may_listen():
        if watcher.version != sent_version:
            sent_version, event = await watcher.get_event(dataset, datasets)
            sent_at = time.monotonic()
            yield event
        elif time.monotonic() - sent_at >= HEARTBEAT_INTERVAL_S:
            sent_at = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(watcher.poll_interval)


class QueueEventsResponse(StreamingResponse):
    """Counts as a listener from its first byte to its last, so that simultaneous requests can't exceed the limit."""

    def __init__(self, request: Request, backend: Backend, caller: Caller, dataset: str | None) -> None:
        watcher: QueueWatcher = request.app.state.queue_watcher

        def may_listen() -> bool:
            return is_still_known(request, caller)

        super().__init__(
            stream_queue_events(backend, watcher, dataset, caller.listed_datasets, may_listen=may_listen),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._watcher = watcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._watcher.add_listener():
            await super().__call__(scope, receive, send)


@router.get(
    "/v1/events",
    summary="Live updates of the queue",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A `queue` event with the number of items by state, at the start and after every change",
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": 'event: queue\ndata: {"dataset": null, "version": 7, "counts": {"open": 3}}\n\n',
                }
            },
        }
    },
)
async def events(
    request: Request, backend: BackendDep, caller: CallerDep, dataset: DatasetQuery = None
) -> StreamingResponse:
    """The stream ends when the service shuts down: the client then reconnects, to another replica."""
    return QueueEventsResponse(request, backend, caller, dataset)
