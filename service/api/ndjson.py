"""Newline-delimited JSON, in and out at the same time, in bounded memory.

    body ─ read eagerly ─▶ spool ─ a few lines at a time ─▶ handler ─ an answer a line, in order ─▶ response

Many clients read no answer before they have sent their whole body. Were the body read only as fast as answers go
out, both sides would wait for each other for ever: so while the client does not read, the body goes to a spool, past
a size on disk. A client that reads is given answers as they are found, and is held back when it sends too fast.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, NamedTuple, Self, cast

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service.api.middleware import OVER
from service.api.problems import TooLargeError, encoded, note, problem_of
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from types import TracebackType

    from starlette.types import Message, Receive, Scope, Send

MEDIA_TYPE = "application/x-ndjson"
LINES_AT_ONCE = 64
BYTES_AT_ONCE = 1 << 20
READ_BYTES = 1 << 16
MEMORY_BYTES = 1 << 20
AHEAD_BYTES = 8 << 20
PORTIONS_AT_ONCE = 2


class Line(NamedTuple):
    """A line by its number in the body, from 1. `raw` is none where it was longer than a line may be."""

    number: int
    raw: bytes | None


Handler = Callable[[Sequence[Line], bool], Coroutine[None, None, list[bytes]]]
"""Answers lines, each with its end of line; told whether they are the first ones."""


class Splitter:
    """Cuts bytes into lines, without the blank ones; of a line that is too long nothing is kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._parts: list[bytes] = []
        self._size = 0
        self._number = 1

    def feed(self, data: bytes) -> list[Line]:
        *whole, rest = data.split(b"\n")
        found = []
        for part in whole:
            self._add(part)
            found += self.end()
            self._number += 1
        self._add(rest)
        return found

    def end(self) -> list[Line]:
        """The line at hand, as if it ended here."""
        raw: bytes | None = b"".join(self._parts).strip()
        if self._size > self._max:
            raw = None
        self._parts, self._size = [], 0
        return [] if raw == b"" else [Line(self._number, raw)]

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max:
            self._parts.clear()
        elif part:
            self._parts.append(part)


class Spool:
    """Bytes in, the same bytes out: kept in memory, and past a size in a file without a name."""

    def __init__(self, memory: int = MEMORY_BYTES) -> None:
        self._file = SpooledTemporaryFile(max_size=memory)  # noqa: SIM115 - closed by whoever has it
        self._read = self._written = 0

    def __len__(self) -> int:
        return self._written - self._read

    def write(self, data: bytes) -> None:
        self._file.seek(self._written)
        self._file.write(data)
        self._written += len(data)

    def read(self, most: int) -> bytes:
        self._file.seek(self._read)
        data = self._file.read(min(most, len(self)))
        self._read += len(data)
        if not len(self):
            self._file.seek(0)
            self._file.truncate()
            self._read = self._written = 0
        return data

    def close(self) -> None:
        self._file.close()


class Upload:
    """The body of one request, read by a task of its own until the client has gone or the context is left.

    When the client goes, the task that made this is cancelled: what it waits for is not wanted any more. Leaving the
    context then raises `ClientDisconnect`.
    """

    def __init__(
        self, receive: Receive, *, max_line_bytes: int, cut_off: Callable[[], Exception | None] = lambda: None
    ) -> None:
        """`cut_off`: why no more is read though the client has not gone."""
        self._receive = receive
        self._cut_off = cut_off
        self._splitter = Splitter(max_line_bytes)
        self._spool = Spool()
        self._data, self._room = asyncio.Event(), asyncio.Event()
        self._lines: deque[Line] = deque()
        self._complete = self._gone = self._client_waits = False
        self._failed: Exception | None = None
        self._reader: asyncio.Task[None] | None = None
        self._user = asyncio.current_task()
        self.unanswered = 1  # the first line that has no answer yet

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read_body())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])
        self._spool.close()
        if self._gone and isinstance(error, asyncio.CancelledError):
            if self._user is not None:
                self._user.uncancel()
            raise ClientDisconnect from None

    async def _read_body(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                cut_off = self._cut_off()
                if cut_off is not None:
                    self._fail(cut_off)
                    return
                self._gone = True
                if self._user is not None:
                    self._user.cancel()
                return
            if self._failed is not None:
                continue  # only to see whether the client goes
            try:
                self._spool.write(message.get("body", b""))
            except OSError:
                self._fail(TooLargeError("there is no room to keep it all: read answers while you send, or send less"))
                continue
            self._complete = not message.get("more_body", False)
            self._data.set()
            while len(self._spool) >= AHEAD_BYTES and not self._client_waits:
                self._room.clear()
                await self._room.wait()

    def _fail(self, error: Exception) -> None:
        """Told once what was read before is answered."""
        self._failed = error
        self._data.set()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """For as long as the client does not take what is sent to it, the body is read on."""
        self._client_waits = True
        self._room.set()
        try:
            yield
        finally:
            self._client_waits = False

    def answered(self, lines: Sequence[Line]) -> None:
        if lines:
            self.unanswered = lines[-1].number + 1

    async def portion(self, *, wait: bool = True) -> list[Line]:
        """The next lines: those that are there, some at a time. None at the end of the body, or without `wait`."""
        found: list[Line] = []
        size = 0
        while True:
            while self._lines and len(found) < LINES_AT_ONCE and size < BYTES_AT_ONCE:
                found.append(self._lines.popleft())
                size += len(found[-1].raw or b"")
            if self._lines or size >= BYTES_AT_ONCE or (found and not len(self._spool)):
                return found
            while not (len(self._spool) or self._complete or self._failed):
                if not wait:
                    return found
                self._data.clear()
                await self._data.wait()
            if self._failed is not None and not len(self._spool):
                if wait:
                    raise self._failed
                return found
            data = self._spool.read(READ_BYTES)
            self._room.set()
            if not data:
                return found + self._splitter.end()
            self._lines.extend(self._splitter.feed(data))


class Streamed(Response):
    """Answers an NDJSON body line by line.

    The first lines are answered before anything is sent, so that a queue that is full or a log that does not answer
    still is a status. Later the error stands in the place of the answers, with the first line that has none.
    With `ahead` the next lines are worked on while some are answered; without, they come strictly one after the other.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self, handler: Handler, *, max_line_bytes: int, request_id: str, status_code: int = 200, ahead: bool = False
    ) -> None:
        super().__init__(status_code=status_code)
        del self.headers["content-length"]
        self._handler = handler
        self._max_line_bytes = max_line_bytes
        self._request_id = request_id
        self._ahead = ahead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def cut_off() -> Exception | None:
            return cast("Exception | None", scope.get("state", {}).get(OVER))

        async with Upload(receive, max_line_bytes=self._max_line_bytes, cut_off=cut_off) as upload:
            lines = await upload.portion()
            answers = await self._handler(lines, True) if lines else []
            with upload.sending():
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await send(_part(answers))
            upload.answered(lines)
            try:
                await self._go_on(upload, send)
            except LabelwatchError as error:
                note(error)
                told = _with_taken(error, upload.unanswered - 1) if isinstance(error, TooLargeError) else error
                problem = problem_of(told, request_id=self._request_id, line=upload.unanswered)
                await send(_part([encoded(problem), b"\n"]))
            await send(_part([], more=False))

    async def _go_on(self, upload: Upload, send: Send) -> None:
        tasks: deque[tuple[list[Line], asyncio.Task[list[bytes]]]] = deque()
        try:
            while True:
                lines = await upload.portion(wait=not tasks)
                if lines:
                    tasks.append((lines, asyncio.ensure_future(self._handler(lines, False))))
                elif not tasks:
                    return
                if lines and self._ahead and len(tasks) < PORTIONS_AT_ONCE:
                    continue
                of, task = tasks[0]
                answers = await task
                tasks.popleft()
                with upload.sending():
                    await send(_part(answers))
                upload.answered(of)
        finally:
            for _, task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait([task for _, task in tasks])


def _with_taken(error: TooLargeError, lines: int) -> TooLargeError:
    return TooLargeError(f"{error}; {lines:,} lines were taken and answered, go on with line {lines + 1}")


def _part(lines: Sequence[bytes], *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": b"".join(lines), "more_body": more}
