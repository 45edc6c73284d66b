"""Accepts the clients' connections in the first process, and gives each to the process that has the fewest.

A connection stays in its process. A scoring process hands it over to this one when its next request is not for scores.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from service.runtime.scoring.channel import ChannelClosedError, Kind
from service.runtime.scoring.heartbeat import BEAT_INTERVAL_S
from service.runtime.scoring.process import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.api.http.connections.connection import ConnectionLimits, LimitedHttpProtocol
    from service.runtime.scoring.channel import ChannelMessage
    from service.runtime.scoring.process import ScoringProcess

logger = logging.getLogger(__name__)

MAX_ACCEPTS: Final = 128  # in one step of the event loop
ACCEPT_RETRY_S: Final = 1.0  # after an error, such as no free file descriptor


class ConnectionDispatcher:
    """One event loop uses it. The limits count the connections of all processes."""

    def __init__(
        self,
        listening: socket.socket,
        processes: Sequence[ScoringProcess],
        limits: ConnectionLimits,
        create_protocol: Callable[[], LimitedHttpProtocol],
        count_own: Callable[[], int],
    ) -> None:
        """`count_own`: the connections of this process."""
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._processes = tuple(processes)
        self._limits = limits
        self._create_protocol = create_protocol
        self._count_own = count_own
        self._numbers = count(1)
        self._tasks: set[asyncio.Task[bool]] = set()
        self._closed = False
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)
        for process in self._processes:
            self._loop.add_reader(process.channel, self._receive, process)
        self._loop.call_later(BEAT_INTERVAL_S, self._count_silence)

    def close(self) -> None:
        """Accepts nothing more."""
        self._closed = True
        self._loop.remove_reader(self._listening)

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTS):
            try:
                connection, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("can't accept connections, trying again in %g s: %s", ACCEPT_RETRY_S, error)
                self._loop.remove_reader(self._listening)
                self._loop.call_later(ACCEPT_RETRY_S, self._resume_accepting)
                return
            connection.setblocking(False)
            self._dispatch(connection, str(address[0]))

    def _resume_accepting(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept)

    def _dispatch(self, connection: socket.socket, address: str) -> None:
        process = self._choose_process()
        # A connection over the limits gets its answer here, where the protocol asks the limits again.
        if process is None or self._limits.open(address):
            self._serve_here(connection)
        elif process.give(next(self._numbers), connection.fileno(), address):
            connection.close()  # this process's copy
        else:
            self._limits.close(address)
            self._serve_here(connection)

    def _choose_process(self) -> ScoringProcess | None:
        """The scoring process with the fewest connections; None if this process has fewer."""
        ready = [process for process in self._processes if not process.status]
        if not ready:
            return None
        process = min(ready, key=lambda each: len(each.connections))
        own = self._count_own() + len(self._tasks)  # with those that are not counted yet
        return process if len(process.connections) <= own else None

    def _receive(self, process: ScoringProcess) -> None:
        try:
            for message in process.channel.receive():
                self._handle(process, message)
        except ChannelClosedError:
            self._loop.remove_reader(process.channel)
            process.reported_status = ENDED
            for address in process.connections.values():
                self._limits.close(address)
            process.connections.clear()

    def _count_silence(self) -> None:
        for process in self._processes:
            process.heartbeat.count_second()
        self._loop.call_later(BEAT_INTERVAL_S, self._count_silence)

    def _handle(self, process: ScoringProcess, message: ChannelMessage) -> None:
        if message.kind is Kind.STATUS:
            process.reported_status = message.data.decode()
        elif message.kind is Kind.ALIVE:
            process.heartbeat.beat()
        elif message.kind is Kind.METRICS:
            process.take_metrics(message.data)
        else:
            self._limits.close(process.connections.pop(message.number))
        if message.descriptor is not None:
            self._serve_here(socket.socket(fileno=message.descriptor), message.data)

    def _serve_here(self, connection: socket.socket, received: bytes = b"") -> None:
        if self._closed:
            connection.close()
            return
        task = self._loop.create_task(serve_connection(connection, self._create_protocol, received))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def serve_connection(
    connection: socket.socket, create_protocol: Callable[[], LimitedHttpProtocol], received: bytes = b""
) -> bool:
    """Serves a connection that was accepted before; False if it has ended already. `received`: what was read of it."""

    def create() -> LimitedHttpProtocol:
        protocol = create_protocol()
        protocol.received_before = received
        return protocol

    try:
        await asyncio.get_running_loop().connect_accepted_socket(create, connection)
    except OSError as error:  # the client has left meanwhile
        logger.debug("a connection ended before it was served: %s", error)
        with suppress(OSError):
            connection.close()
        return False
    return True
