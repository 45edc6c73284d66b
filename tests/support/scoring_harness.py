"""The API over a log in a folder and a tiny model, called in this process: by a client, or message by message."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import httpx

from service.access.audit_log import AuditView
from service.access.key_view import KeyView
from service.api.app import create_app
from service.api.backend import Backend
from service.api.batching.batcher import MicroBatcher
from service.api.ingest.log_appender import LogAppender
from service.datasets.registry import DatasetRegistry
from service.datasets.training_view import TrainingView
from service.log.dead_letter_index import DeadLetterIndex
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.settings import ApiSettings
from service.stream.state.view import StateView
from service.telemetry import Telemetry
from tests.support.model_pools import NO_REGISTRY, make_pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from pathlib import Path

    from fastapi import FastAPI

    from service.inference.classifier import Classifier
    from service.log.protocol import Output

WAIT_TIMEOUT_S = 30.0
NDJSON = "application/x-ndjson"
URL = "http://labelwatch"


@dataclass
class ScoringHarness:
    app: FastAPI
    backend: Backend
    batcher: MicroBatcher
    stream: SqliteLog
    topics: Topics
    telemetry: Telemetry

    def run_with_client(self, work: Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]) -> Any:
        """A coroutine that is given a client, within a time that only a hang exceeds."""

        async def within() -> Any:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
                return await asyncio.wait_for(work(client), WAIT_TIMEOUT_S)

        return asyncio.run(within())

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"content-type": "application/json"} | {key.replace("_", "-"): value for key, value in headers.items()}
        response = self.run_with_client(lambda client: client.post(path, content=content, headers=named))
        assert isinstance(response, httpx.Response)
        return response

    def post_lines(self, path: str, *lines: Any) -> httpx.Response:
        raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        return self.post(path, b"\n".join(raw), content_type=NDJSON)

    def append(self, *outputs: Output) -> None:
        self.stream.append(outputs)
        while self.backend.state_view.step():
            pass

    def read_metric(self, name: str, **labels: str) -> float:
        return self.telemetry.registry.get_sample_value(name, labels) or 0.0


@contextmanager
def scoring_harness(
    folder: Path,
    classifier: Classifier,
    *,
    models: Path = NO_REGISTRY,
    queue: dict[str, Any] | None = None,
    append_to: Any = None,
    **limits: Any,
) -> Iterator[ScoringHarness]:
    """`models`: the model registry, `queue`: options of the batcher, `limits`: API settings, `append_to`: what requests append to instead of the log."""
    topics = Topics()
    log = SqliteLog(folder / "log.sqlite", topics)
    pool = make_pool(classifier, models)
    state_view = StateView(log, topics, DatasetRegistry(pool, min_words=1, prior_words=200))
    while not state_view.caught_up:
        state_view.step()
    batcher, telemetry, stop = MicroBatcher(classifier, **(queue or {})), Telemetry(), threading.Event()
    key_view, audit_view = KeyView(log, topics.keys), AuditView(log, topics.audit)
    key_view.step()
    settings = ApiSettings(**limits)
    backend = Backend(
        settings=settings,
        state_view=state_view,
        training_view=TrainingView(log, topics.models),
        key_view=key_view,
        audit_view=audit_view,
        batcher=batcher,
        queue=cast("Any", None),
        projector=cast("Any", None),
        appender=LogAppender(append_to or log, request_timeout_s=settings.timeout_s),
        dead_letters=DeadLetterIndex(log, topics),
        open_log=lambda: SqliteLog(folder / "log.sqlite", topics),
        topics=topics,
        models=pool,
        telemetry=telemetry,
        max_words=50,
    )
    thread = threading.Thread(target=batcher.run, args=(stop,), daemon=True)
    thread.start()
    while batcher.unavailable_reason:
        time.sleep(0)
    try:
        yield ScoringHarness(create_app(backend), backend, batcher, log, topics, telemetry)
    finally:
        stop.set()
        thread.join(WAIT_TIMEOUT_S)
        state_view.close()
        log.close()


class AsgiExchange:
    """One request, message by message: what a client that reads while it sends would see."""

    def __init__(self, app: FastAPI, path: str, *, query: str = "", content_type: str = NDJSON) -> None:
        self._app = app
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.reading = asyncio.Event()
        self.reading.set()
        self.received_bytes = 0
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": [(b"content-type", content_type.encode()), (b"host", b"labelwatch")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "state": {},
        }

    def set_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        self._scope["headers"] = headers

    async def __aenter__(self) -> AsgiExchange:
        self.task = asyncio.create_task(self._app(self._scope, self._receive, self._send))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _receive(self) -> dict[str, Any]:
        message = await self._incoming.get()
        self.received_bytes += len(message.get("body", b""))
        return message

    async def _send(self, message: Any) -> None:
        await self.reading.wait()
        await self._outgoing.put(dict(message))

    def send_lines(self, *lines: Any, last: bool = False) -> None:
        body = b"".join((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n" for each in lines)
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": not last})

    def disconnect(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def receive(self) -> dict[str, Any]:
        return await asyncio.wait_for(self._outgoing.get(), WAIT_TIMEOUT_S)

    async def iter_response_lines(self) -> AsyncIterator[dict[str, Any]]:
        """Lines of the answer as they come, up to its end."""
        while True:
            message = await self.receive()
            for line in message.get("body", b"").splitlines():
                yield json.loads(line)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                return
