"""A delivery whose sentences are in the log is remembered, whatever happens to its request afterwards."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.api.ingest.delivery_file import DeliveryFile
from service.api.ingest.webhook_deliveries import WebhookDeliveries
from service.errors import StreamError
from tests.support.api_harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class SlowFile(DeliveryFile):
    """It does not write the first delivery before it may."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.is_writing, self.may_write, self.has_written = (threading.Event() for _ in range(3))

    def add(self, keys: Iterable[str]) -> None:
        if not self.is_writing.is_set():
            self.is_writing.set()
            self.may_write.wait()
        super().add(keys)
        self.has_written.set()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deliveries.sqlite"


def fail() -> None:
    raise StreamError("no answer in time")


async def deliver(deliveries: WebhookDeliveries, key: str, ingest: Callable[[], None] = lambda: None) -> bool:
    """Whether it is new."""
    async with deliveries.deduplicate([key]) as is_new:
        ingest()
        return is_new


async def start_to_write(deliveries: WebhookDeliveries, file: SlowFile, key: str) -> asyncio.Task[bool]:
    """A request whose sentences are in the log, and whose delivery is being written to the file."""
    request = asyncio.create_task(deliver(deliveries, key))
    while not file.is_writing.is_set():
        await asyncio.sleep(0.001)
    return request


def test_a_delivery_is_known_if_its_request_times_out_while_the_file_is_written(path: Path) -> None:
    async def time_out(file: SlowFile) -> None:
        deliveries = WebhookDeliveries(file)
        request = await start_to_write(deliveries, file, "a")
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert not await deliver(deliveries, "a")

    with closing(SlowFile(path)) as file:
        try:
            asyncio.run(time_out(file))
        finally:
            file.may_write.set()
        wait_for(file.has_written.is_set)  # no request waits for it any more
        assert file.contains_any(["a"])


def test_a_delivery_is_known_while_the_file_is_written(path: Path) -> None:
    async def repeat(file: SlowFile) -> None:
        deliveries = WebhookDeliveries(file)
        request = await start_to_write(deliveries, file, "a")
        try:
            assert not await deliver(deliveries, "a")
        finally:
            file.may_write.set()
        assert await request

    with closing(SlowFile(path)) as file:
        asyncio.run(repeat(file))


def test_what_was_not_ingested_may_be_delivered_again(path: Path) -> None:
    async def fail_and_deliver(file: DeliveryFile) -> None:
        deliveries = WebhookDeliveries(file)
        with pytest.raises(StreamError):
            await deliver(deliveries, "a", ingest=fail)
        assert not file.contains_any(["a"])
        assert await deliver(deliveries, "a")
        assert file.contains_any(["a"])

    with closing(DeliveryFile(path)) as file:
        asyncio.run(fail_and_deliver(file))
