"""A TCP proxy in front of each broker, for the workers whose network breaks.

The brokers advertise the proxies on a listener of their own. A worker that bootstraps there reaches each broker through
its proxy only, and every other client reaches the brokers directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

HOST = "127.0.0.1"
CHUNK_BYTES = 64 * 1024
CLOSE_TIMEOUT_S = 10.0


class Link(StrEnum):
    """What happens to the connections to a broker."""

    OPEN = "open"
    STALLED = "stalled"  # nothing arrives and nothing is refused, as when packets are dropped
    REFUSED = "refused"  # connections are reset, as by a firewall


class BrokerProxies:
    """One proxy per broker, in a thread of its own. The methods may be called by any thread."""

    def __init__(self, nodes: Iterable[int]) -> None:
        self.ports: dict[int, int] = {}
        self._nodes = tuple(nodes)
        self._targets: dict[int, int] = {}
        self._links: dict[int, Link] = dict.fromkeys(self._nodes, Link.OPEN)
        self._changed = asyncio.Event()
        self._transports: dict[int, set[asyncio.WriteTransport]] = {node: set() for node in self._nodes}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker-proxies", daemon=True)
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(CLOSE_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_TIMEOUT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)
        self._loop.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def forward_to(self, ports: Mapping[int, int]) -> None:
        """Sets the ports of the brokers themselves."""
        self._targets = dict(ports)

    def set_link(self, node: int, link: Link) -> None:
        self._call(lambda: self._apply_link(node, link))

    def _call(self, action: Callable[[], None]) -> None:
        done = threading.Event()

        def run() -> None:
            action()
            done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(CLOSE_TIMEOUT_S)

    def _apply_link(self, node: int, link: Link) -> None:
        self._links[node] = link
        if link is Link.REFUSED:
            for transport in self._transports[node]:
                transport.abort()
        self._changed.set()
        self._changed = asyncio.Event()

    async def _listen(self) -> None:
        for node in self._nodes:
            server = await asyncio.start_server(self._make_handler(node), HOST, 0)
            self.ports[node] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    def _make_handler(self, node: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._serve(node, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return handle

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        transports = self._transports[node]
        transports.add(writer.transport)
        broker_writer: asyncio.StreamWriter | None = None
        try:
            await self._wait_while_stalled(node)
            if self._links[node] is Link.REFUSED:
                return
            broker_reader, broker_writer = await asyncio.open_connection(HOST, self._targets[node])
            transports.add(broker_writer.transport)
            pumps = [
                self._loop.create_task(self._pump(node, reader, broker_writer)),
                self._loop.create_task(self._pump(node, broker_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass  # the broker is down: so is the connection
        finally:
            for each in (writer, broker_writer):
                if each is not None:
                    transports.discard(each.transport)
                    each.transport.abort()

    async def _pump(self, node: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                await self._wait_while_stalled(node)
                writer.write(chunk)
                await writer.drain()

    async def _wait_while_stalled(self, node: int) -> None:
        while self._links[node] is Link.STALLED:
            await self._changed.wait()
