"""A log that hangs blocks the requests that write to it, and no others."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

from service.api.ingest.log_appender import DEFAULT_THREADS, TIMEOUT_SHARE, LogAppender
from service.errors import StreamError
from service.log.protocol import Output
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.log.protocol import Log
    from tests.support.api_harness import ApiHarness

ONE = {"tokens": ["the", "wolves"], "labels": ["O", "O"]}
WAIT = 30.0
POOL = 40  # threads of the framework's own pool


class HangingLog:
    """A log whose appends end when `let_go` is set."""

    def __init__(self) -> None:
        self.begun = 0
        self.timeouts: list[float] = []
        self.let_go = threading.Event()
        self._lock = threading.Lock()

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        assert outputs
        with self._lock:
            self.begun += 1
            self.timeouts.append(timeout)
        self.let_go.wait(WAIT)


@pytest.fixture
def hanging() -> Iterator[HangingLog]:
    log = HangingLog()
    yield log
    log.let_go.set()


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT):
        while not condition():
            await asyncio.sleep(0.001)


def test_others_are_answered_while_the_log_hangs(harness: ApiHarness, hanging: HangingLog) -> None:
    most = POOL + 10
    harness.serve_with(append_to=hanging, max_pending=most)

    async def work() -> None:
        transport = httpx.ASGITransport(harness.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://labelwatch") as client:
            writing = [asyncio.create_task(client.post("/v1/sentences", json=ONE)) for _ in range(most)]
            await until(lambda: hanging.begun == DEFAULT_THREADS)
            for path in ("/readyz", "/metrics", "/v1/model", "/v1/datasets", "/v1/review"):
                answer = await asyncio.wait_for(client.get(path), WAIT)
                assert answer.status_code == 200, path
            refused = await asyncio.wait_for(client.post("/v1/sentences", json=ONE), WAIT)
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:labelwatch:problem:log-unavailable"
            assert int(refused.headers["Retry-After"]) > 0
            hanging.let_go.set()
            assert {answer.status_code for answer in await asyncio.gather(*writing)} == {202}
            assert (await client.post("/v1/sentences", json=ONE)).status_code == 202  # a slot is free again

    asyncio.run(work())
    share = 0.5 * harness.backend.settings.timeout_s
    assert max(hanging.timeouts) <= share


def appender(log: object, *, timeout_s: float = WAIT, **options: Any) -> LogAppender:
    return LogAppender(cast("Log", log), request_timeout_s=timeout_s / TIMEOUT_SHARE, **options)


MESSAGE = Output("sentences", None, b"{}")


def test_a_slot_is_taken_until_the_append_has_ended(hanging: HangingLog) -> None:
    writing = appender(hanging, threads=1, max_pending=2)

    async def work() -> None:
        first = asyncio.create_task(writing.append([MESSAGE]))
        await until(lambda: hanging.begun == 1)
        second = asyncio.create_task(writing.append([MESSAGE]))
        await asyncio.sleep(0)
        first.cancel()  # its client has disconnected, its thread still waits for the log
        await asyncio.wait([first])
        with pytest.raises(StreamError, match="2 requests wait"):
            await writing.append([MESSAGE])
        second.cancel()  # this one has no thread yet
        await asyncio.wait([second])
        third = asyncio.create_task(writing.append([MESSAGE]))
        await asyncio.sleep(0)
        hanging.let_go.set()
        await third

    asyncio.run(work())
    wait_for(lambda: hanging.begun == 2)
    writing.close()
    with pytest.raises(StreamError, match="stopping"):
        asyncio.run(writing.append([MESSAGE]))


def test_a_request_that_waited_too_long_for_a_thread_does_not_write(hanging: HangingLog) -> None:
    with pytest.raises(StreamError, match="no thread was free within 0 s"):
        asyncio.run(appender(hanging, timeout_s=0.0).append([MESSAGE]))
    assert hanging.begun == 0


def test_a_broker_that_is_known_to_be_down_is_not_waited_for(hanging: HangingLog) -> None:
    writing = appender(hanging, get_broker_error=lambda: "the broker can't be reached")
    with pytest.raises(StreamError, match="the broker can't be reached"):
        asyncio.run(writing.append([MESSAGE]))
    with pytest.raises(StreamError, match="the broker can't be reached"):
        asyncio.run(writing.write(lambda log, timeout: log.append_if_unchanged(MESSAGE, None, timeout=timeout)))
    assert hanging.begun == 0
