"""A log that hangs holds up who writes to it, and nobody else."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from service.api.ingest.append_pool import DEFAULT_THREADS, AppendPool
from service.errors import StreamError
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.log.protocol import Output
    from tests.support.api_harness import ApiHarness

ONE = {"tokens": ["the", "wolves"], "labels": ["O", "O"]}
WAIT = 30.0
POOL = 40  # threads that the framework has for everybody


class Hanging:
    """A log that takes nothing until it is let go."""

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
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.let_go.set()


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT):
        while not condition():
            await asyncio.sleep(0.001)


def test_others_are_answered_while_the_log_hangs(desk: ApiHarness, hanging: Hanging) -> None:
    most = POOL + 10
    desk.serve_with(stream=hanging, append_pool=AppendPool(max_pending=most))

    async def work() -> None:
        transport = httpx.ASGITransport(desk.app)
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
            assert (await client.post("/v1/sentences", json=ONE)).status_code == 202  # there is room again

    asyncio.run(work())
    share = 0.5 * desk.backend.settings.timeout_s
    assert max(hanging.timeouts) <= share


def test_room_is_taken_until_the_write_has_ended(hanging: Hanging) -> None:
    writers = AppendPool(threads=1, max_pending=2)

    def write(left: float) -> None:
        hanging.append([None], timeout=left)  # type: ignore[list-item]  # it is not looked at

    async def work() -> None:
        first = asyncio.create_task(writers.run(write, timeout=WAIT))
        await until(lambda: hanging.begun == 1)
        second = asyncio.create_task(writers.run(write, timeout=WAIT))
        await asyncio.sleep(0)
        first.cancel()  # its client has gone, its thread still waits for the log
        await asyncio.wait([first])
        with pytest.raises(StreamError, match="2 requests wait"):
            await writers.run(write, timeout=WAIT)
        second.cancel()  # this one has no thread yet
        await asyncio.wait([second])
        third = asyncio.create_task(writers.run(write, timeout=WAIT))
        await asyncio.sleep(0)
        hanging.let_go.set()
        await third

    asyncio.run(work())
    wait_for(lambda: hanging.begun == 2)
    writers.close()
    with pytest.raises(StreamError, match="stopping"):
        asyncio.run(writers.run(write, timeout=WAIT))


def test_who_waited_too_long_for_a_thread_is_not_kept_longer() -> None:
    writers = AppendPool()
    seen: list[float] = []
    with pytest.raises(StreamError, match="others have waited"):
        asyncio.run(writers.run(seen.append, timeout=0.0))
    assert not seen
