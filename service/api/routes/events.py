"""Live updates: who listens is told when the queue has changed, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from service.api.backend import Backend
from service.api.dependencies import BackendDep, DatasetQuery
from service.api.http.problems import OverloadedError
from service.api.http.threads import run_in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from starlette.types import Receive, Scope, Send

router = APIRouter(tags=["review"])

POLL_INTERVAL_S = 1.0
HEARTBEAT_INTERVAL_S = 15.0
MAX_LISTENERS = 200


class QueueWatcher:
    """The queue's counters for all listeners together: it is asked once a tick, however many listen."""

    def __init__(self, backend: Backend, *, poll_interval: float = POLL_INTERVAL_S) -> None:
        self._backend = backend
        self.poll_interval = poll_interval
        self.listeners = 0
        self._counts_cache: dict[str | None, tuple[int, Mapping[str, int]]] = {}
        self._lock = asyncio.Lock()

    @contextmanager
    def add_listener(self) -> Iterator[None]:
        """Room for one who listens, or `OverloadedError`."""
        if self.listeners >= MAX_LISTENERS:
            raise OverloadedError(f"{MAX_LISTENERS} listen already: ask GET /v1/review now and then instead")
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    @property
    def version(self) -> int:
        return self._backend.queue.version

    async def get_counts(self, dataset: str | None) -> Mapping[str, int]:
        async with self._lock:
            version = self.version
            kept = self._counts_cache.get(dataset)
            if kept is not None and kept[0] == version:
                return kept[1]
            if len(self._counts_cache) > MAX_LISTENERS:
                self._counts_cache.clear()
            counts = await run_in_thread(self._backend.queue.count_items, dataset)
            self._counts_cache[dataset] = (version, counts)
            return counts


async def queue_events(backend: Backend, watcher: QueueWatcher, dataset: str | None) -> AsyncIterator[str]:
    """One event at once, one whenever something has changed, and a sign of life in between."""
    told: int | None = None
    said_at = time.monotonic()
    yield "retry: 3000\n\n"
    while not backend.draining.is_set():
        version = watcher.version
        if version != told:
            told, said_at = version, time.monotonic()
            told_of = {"dataset": dataset, "version": version, "counts": dict(await watcher.get_counts(dataset))}
            yield f"event: queue\ndata: {json.dumps(told_of)}\n\n"
        elif time.monotonic() - said_at >= HEARTBEAT_INTERVAL_S:
            said_at = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(watcher.poll_interval)


class QueueEventsResponse(StreamingResponse):
    """Takes its place as it begins to answer: of many who ask at once no more get in than there is room for."""

    def __init__(self, backend: Backend, watcher: QueueWatcher, dataset: str | None) -> None:
        super().__init__(
            queue_events(backend, watcher, dataset),
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
            "description": "`queue` events with the number of items by state, whenever it has changed",
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": 'event: queue\ndata: {"dataset": null, "version": 7, "counts": {"open": 3}}\n\n',
                }
            },
        }
    },
)
async def events(request: Request, backend: BackendDep, dataset: DatasetQuery = None) -> StreamingResponse:
    """Stays open; ends when the service is about to stop, so that the client connects to another."""
    return QueueEventsResponse(backend, request.app.state.queue_watcher, dataset)
