"""Newline-delimited JSON, in and out at the same time, in bounded memory.

    body ─ read eagerly ─▶ spool ─ a few lines at a time ─▶ handler ─ an answer a line, in order ─▶ response

Many clients read no answer before they have sent their whole body. Were the body read only as fast as answers go
out, both sides would wait for each other for ever: so while the client does not read, the body goes to a spool, past
a size on disk. A client that reads is given answers as they are found, and is held back when it sends too fast.

Only so many streams are open at once, and spools keep only so much together. One whose client neither sends nor reads
for a while, though it is its turn, is ended: with 408, or once answers are under way with a problem as the last line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, cast

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service.api.http.line_spool import Line, Splitter, Spool, Streams
from service.api.http.middleware import OVER
from service.api.http.problems import IdleError, TooLargeError, encoded, note, problem_of
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from types import TracebackType

    from starlette.types import Message, Receive, Scope, Send

MEDIA_TYPE = "application/x-ndjson"
LINES_AT_ONCE = 64
RECORDS_AT_ONCE = 8  # each may hold many sentences
BYTES_AT_ONCE = 1 << 20
READ_BYTES = 1 << 16
SEND_BYTES = 1 << 16  # at once: each that the client takes is a sign of life
AHEAD_BYTES = 8 << 20
PORTIONS_AT_ONCE = 2


Handler = Callable[[Sequence[Line], bool], Coroutine[None, None, list[bytes]]]
"""Answers lines, each with its end of line; told whether they are the first ones."""


class Upload:
    """The body of one request, read by a task of its own until the client has gone or the context is left.

    When the client goes, the task that made this is cancelled: what it waits for is not wanted any more. Leaving the
    context then raises `ClientDisconnect`.
    """

    def __init__(
        self, receive: Receive, streams: Streams, *, cut_off: Callable[[], Exception | None] = lambda: None
    ) -> None:
        """`cut_off`: why no more is read though the client has not gone."""
        self._receive = receive
        self._cut_off = cut_off
        self._splitter = Splitter(streams.max_line_bytes)
        self._spool = Spool(streams)
        self._streams = streams
        self._data, self._room = asyncio.Event(), asyncio.Event()
        self._lines: deque[Line] = deque()
        self._complete = self._gone = self._client_waits = False
        self._failed: Exception | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._user = asyncio.current_task()
        self._working = 0  # portions that are being answered: meanwhile it is not the client's turn
        self._last = asyncio.get_running_loop().time()  # when the client has last sent or taken something
        self.unanswered = 1  # the first line that has no answer yet
        self.answering = False

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._read_body()), asyncio.create_task(self._watch())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
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
                self._give_up()
                return
            self._alive()
            if self._failed is not None:
                continue  # only to see whether the client goes
            try:
                self._spool.write(message.get("body", b""))
            except TooLargeError as error:
                self._fail(error)
                continue
            except OSError:
                self._fail(TooLargeError("there is no room to keep it all: read answers while you send, or send less"))
                continue
            self._complete = not message.get("more_body", False)
            self._data.set()
            while len(self._spool) >= AHEAD_BYTES and not self._client_waits:
                self._room.clear()
                await self._room.wait()

    async def _watch(self) -> None:
        """Ends the stream of a client that makes no use of its turn."""
        loop = asyncio.get_running_loop()
        while True:
            limit = self._streams.idle if self.answering else self._streams.idle_at_first
            left = self._last + limit - loop.time()
            if left <= 0 and not self._working:
                break
            await asyncio.sleep(left if left > 0 else limit)
        if self._client_waits:
            self._give_up()  # it takes nothing: neither would it take the reason
        else:
            self._fail(
                IdleError(
                    f"nothing was sent for {limit:g} s: send on, or end the body (the limit is LABELWATCH_API_IDLE_S)",
                    close=True,
                )
            )

    def _alive(self) -> None:
        self._last = asyncio.get_running_loop().time()

    def _give_up(self) -> None:
        self._gone = True
        if self._user is not None:
            self._user.cancel()

    def _fail(self, error: Exception) -> None:
        """Told once what was read before is answered."""
        self._failed = error
        self._data.set()

    @contextmanager
    def working(self) -> Iterator[None]:
        """While lines are being answered the client may well wait for that."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1
            self._alive()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """For as long as the client does not take what is sent to it, the body is read on."""
        self._client_waits = True
        self._room.set()
        try:
            yield
        finally:
            self._client_waits = False
            self._alive()

    def answered(self, lines: Sequence[Line]) -> None:
        if lines:
            self.unanswered = lines[-1].number + 1

    async def portion(self, most: int = LINES_AT_ONCE, *, wait: bool = True) -> list[Line]:
        """The next lines: those that are there, some at a time. None at the end of the body, or without `wait`."""
        found: list[Line] = []
        size = 0
        while True:
            while self._lines and len(found) < most and size < BYTES_AT_ONCE:
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
        self,
        handler: Handler,
        *,
        streams: Streams,
        request_id: str,
        status_code: int = 200,
        ahead: bool = False,
        at_first: int = LINES_AT_ONCE,
        at_once: int = LINES_AT_ONCE,
    ) -> None:
        """`at_first` and `at_once`: lines that are handed over together, at most."""
        super().__init__(status_code=status_code)
        del self.headers["content-length"]
        self._handler = handler
        self._streams = streams
        self._request_id = request_id
        self._ahead = ahead
        self._at_first, self._at_once = at_first, at_once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def cut_off() -> Exception | None:
            return cast("Exception | None", scope.get("state", {}).get(OVER))

        with self._streams.one():
            async with Upload(receive, self._streams, cut_off=cut_off) as upload:
                lines = await upload.portion(self._at_first)
                with upload.working():
                    answers = await self._handler(lines, True) if lines else []
                with upload.sending():
                    await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                upload.answering = True
                await _tell(upload, send, answers)
                upload.answered(lines)
                try:
                    await self._go_on(upload, send)
                except LabelwatchError as error:
                    note(error)
                    told = _with_taken(error, upload.unanswered - 1) if isinstance(error, TooLargeError) else error
                    problem = problem_of(told, request_id=self._request_id, line=upload.unanswered)
                    await _tell(upload, send, [encoded(problem) + b"\n"])
                with upload.sending():
                    await send(_part(b"", more=False))

    async def _go_on(self, upload: Upload, send: Send) -> None:
        tasks: deque[tuple[list[Line], asyncio.Task[list[bytes]]]] = deque()

        async def answers_to(lines: list[Line]) -> list[bytes]:
            with upload.working():
                return await self._handler(lines, False)

        try:
            while True:
                lines = await upload.portion(self._at_once, wait=not tasks)
                if lines:
                    tasks.append((lines, asyncio.ensure_future(answers_to(lines))))
                elif not tasks:
                    return
                if lines and self._ahead and len(tasks) < PORTIONS_AT_ONCE:
                    continue
                of, task = tasks[0]
                answers = await task
                tasks.popleft()
                await _tell(upload, send, answers)
                upload.answered(of)
        finally:
            for _, task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait([task for _, task in tasks])


def _with_taken(error: TooLargeError, lines: int) -> TooLargeError:
    return TooLargeError(f"{error}; {lines:,} lines were taken and answered, go on with line {lines + 1}")


async def _tell(upload: Upload, send: Send, lines: Sequence[bytes]) -> None:
    """Whole lines, some at a time."""
    some, size = [], 0
    for place, line in enumerate(lines, 1):
        some.append(line)
        size += len(line)
        if size >= SEND_BYTES or place == len(lines):
            with upload.sending():
                await send(_part(b"".join(some)))
            some, size = [], 0


def _part(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}
