"""The process that answers probes: python -I -S process.py LISTENER CHANNEL PARENT

It has nothing else to do, so it answers within milliseconds whatever the service does: a thread of the service would wait
for its turn behind threads that parse or judge. The service sends a line of JSON per heartbeat over the channel, a Unix
socket; without one for `MAX_SILENCE_S` the answers are 503. The process ends with the service, which closes the channel.

It starts without the packages of the service, in 0.2 s and with 15 MB: import the standard library only. One thread, since
each further one that takes part in an answer must wait for a core.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import sys
import time
from http import HTTPStatus
from typing import Any

MAX_SILENCE_S = 10.0
METRICS_TIMEOUT_S = 30.0  # of a scrape: the service renders its metrics
CLIENT_TIMEOUT_S = 10.0  # to send a request, and to read the answer
MAX_HEAD_BYTES = 16 * 1024
MAX_MESSAGE_BYTES = 256 * 1024 * 1024  # of the service: its metrics
JSON_TYPE = "application/json"

Answer = tuple[int, str, str]  # status, media type, body


class Service:
    """What the service says: its latest heartbeats, and its metrics on request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parent: int) -> None:
        self._reader, self._writer = reader, writer
        self._parent = parent
        self._beats: dict[str, dict[str, Any]] = {}
        self._numbers = itertools.count()
        self._scrapes: dict[int, asyncio.Future[Answer]] = {}

    async def read_message(self) -> bool:
        """Whether there was one: the service has not ended."""
        try:
            message = json.loads(await self._reader.readuntil(b"\n"))
        except (OSError, EOFError):
            return False
        if "scrape" in message:
            scrape = self._scrapes.get(message["scrape"])
            if scrape is not None and not scrape.done():
                scrape.set_result((HTTPStatus(message["status"]), message["type"], message["body"]))
        else:
            self._beats[message["path"]] = message
        return True

    def describe_silence(self, path: str) -> str:
        """Why the latest heartbeat says nothing about now; empty if it does."""
        if os.getppid() != self._parent:
            return "the process of the service has ended"
        beat = self._beats.get(path)
        if beat is None:
            return "the service is starting"
        seconds = time.monotonic() - beat["at"]  # the clock is the same in all processes of a machine
        return f"the service has not reported for {seconds:.0f} s" if seconds > MAX_SILENCE_S else ""

    def get_answer(self, path: str) -> Answer:
        beat = self._beats[path]
        return beat["status"], JSON_TYPE, beat["body"]

    async def fetch_metrics(self) -> Answer:
        number = next(self._numbers)
        scrape: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._scrapes[number] = scrape
        try:
            self._writer.write(b"%d\n" % number)
            async with asyncio.timeout(METRICS_TIMEOUT_S):
                return await scrape
        except TimeoutError:
            return build_json(HTTPStatus.SERVICE_UNAVAILABLE, status="the service does not answer")
        finally:
            del self._scrapes[number]


async def respond(service: Service, method: str, path: str) -> Answer:
    unavailable = HTTPStatus.SERVICE_UNAVAILABLE
    if method not in ("GET", "HEAD"):
        return build_json(HTTPStatus.METHOD_NOT_ALLOWED, status="use GET")
    if path == "/metrics":
        return await service.fetch_metrics()
    if path == "/healthz":
        silence = service.describe_silence(path)
        return build_json(unavailable, status=silence) if silence else service.get_answer(path)
    if path == "/readyz":
        # Readiness has a thread of its own in the service: one that has died is not ready, whatever it said last.
        silence = service.describe_silence("/healthz") or service.describe_silence(path)
        if silence:
            return build_json(unavailable, ready=False, conditions={"process": silence}, degraded={})
        return service.get_answer(path)
    return build_json(HTTPStatus.NOT_FOUND, status="no such path: use /metrics, /healthz or /readyz")


def build_json(status: int, /, **fields: object) -> Answer:
    return status, JSON_TYPE, json.dumps(fields)


async def answer_client(service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request per connection."""
    with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, TimeoutError):
        async with asyncio.timeout(CLIENT_TIMEOUT_S):
            method, path = await read_request(reader)
        status, media_type, text = await respond(service, method, path)
        body = text.encode()
        head = (
            f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}\r\nServer: labelwatch\r\nContent-Type: {media_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + (b"" if method == "HEAD" else body))
        async with asyncio.timeout(CLIENT_TIMEOUT_S):
            await writer.drain()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    """Method and path; empty if it is not HTTP."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return "", ""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    return (words[0], words[1].partition("?")[0]) if len(words) == 3 else ("", "")


async def run(listener: socket.socket, channel: socket.socket, parent: int) -> None:
    service = Service(*await asyncio.open_unix_connection(sock=channel, limit=MAX_MESSAGE_BYTES), parent)
    await service.read_message()  # the first heartbeat: before it there is nothing to answer
    await asyncio.start_server(
        lambda reader, writer: answer_client(service, reader, writer), sock=listener, limit=MAX_HEAD_BYTES
    )
    while await service.read_message():
        pass


if __name__ == "__main__":
    files = list(map(int, sys.argv[1:3]))
    asyncio.run(run(socket.socket(fileno=files[0]), socket.socket(fileno=files[1]), int(sys.argv[3])))
