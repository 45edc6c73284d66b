"""Live updates: who listens is told when the queue has changed, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import StreamingResponse

from service.api.backend import Backend, backend_dependency
from service.api.http.bodies import in_thread
from service.api.http.problems import OverloadedError
from service.contracts import DatasetName

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from starlette.types import Receive, Scope, Send

router = APIRouter(tags=["review"])

TICK = 1.0
HEARTBEAT = 15.0
MOST_LISTENERS = 200

At = Annotated[Backend, Depends(backend_dependency)]
Of = Annotated[DatasetName | None, Query(description="Only of this one")]


class Counters:
    """The queue's counters for all listeners together: it is asked once a tick, however many listen."""

    def __init__(self, backend: Backend, *, tick: float = TICK) -> None:
        self._backend = backend
        self.tick = tick
        self.listeners = 0
        self._found: dict[str | None, tuple[int, Mapping[str, int]]] = {}
        self._asking = asyncio.Lock()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Room for one who listens, or `OverloadedError`."""
        if self.listeners >= MOST_LISTENERS:
            raise OverloadedError(f"{MOST_LISTENERS} listen already: ask GET /v1/review now and then instead")
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    @property
    def version(self) -> int:
        return self._backend.queue.version

    async def of(self, dataset: str | None) -> Mapping[str, int]:
        async with self._asking:
            version = self.version
            kept = self._found.get(dataset)
            if kept is not None and kept[0] == version:
                return kept[1]
            if len(self._found) > MOST_LISTENERS:
                self._found.clear()
            counts = await in_thread(self._backend.queue.counts, dataset)
            self._found[dataset] = (version, counts)
            return counts


async def changes(backend: Backend, counters: Counters, dataset: str | None) -> AsyncIterator[str]:
    """One event at once, one whenever something has changed, and a sign of life in between."""
    told: int | None = None
    said_at = time.monotonic()
    yield "retry: 3000\n\n"
    while not backend.draining.is_set():
        version = counters.version
        if version != told:
            told, said_at = version, time.monotonic()
            told_of = {"dataset": dataset, "version": version, "counts": dict(await counters.of(dataset))}
            yield f"event: queue\ndata: {json.dumps(told_of)}\n\n"
        elif time.monotonic() - said_at >= HEARTBEAT:
            said_at = time.monotonic()
            yield ": still here\n\n"
        await asyncio.sleep(counters.tick)


class Listening(StreamingResponse):
    """Takes its place as it begins to answer: of many who ask at once no more get in than there is room for."""

    def __init__(self, backend: Backend, counters: Counters, dataset: str | None) -> None:
        super().__init__(
            changes(backend, counters, dataset),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counters.one():
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
async def events(request: Request, backend: At, dataset: Of = None) -> StreamingResponse:
    """Stays open; ends when the service is about to stop, so that the client connects to another."""
    return Listening(backend, request.app.state.counters, dataset)
