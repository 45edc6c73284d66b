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

from service.api.http.line_spool import BodyLine, LineSplitter, Spool, StreamLimiter
from service.api.http.middleware import BODY_TOO_LARGE_KEY
from service.api.http.problems import BodyTimeoutError, TooLargeError, encode_problem, log_unexplained_error, to_problem
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from types import TracebackType

    from starlette.types import Message, Receive, Scope, Send

NDJSON_MEDIA_TYPE = "application/x-ndjson"
MAX_BATCH_LINES = 64
MAX_BATCH_RECORDS = 8  # each may hold many sentences
MAX_BATCH_BYTES = 1 << 20
READ_CHUNK_BYTES = 1 << 16
SEND_CHUNK_BYTES = 1 << 16  # at once: each that the client takes is a sign of life
MAX_READ_AHEAD_BYTES = 8 << 20
MAX_CONCURRENT_BATCHES = 2


LineHandler = Callable[[Sequence[BodyLine], bool], Coroutine[None, None, list[bytes]]]
"""Answers lines, each with its end of line; told whether they are the first ones."""


class Upload:
    """The body of one request, read by a task of its own until the client has gone or the context is left.

    When the client goes, the task that made this is cancelled: what it waits for is not wanted any more. Leaving the
    context then raises `ClientDisconnect`.
    """

    def __init__(
        self, receive: Receive, limiter: StreamLimiter, *, get_read_error: Callable[[], Exception | None] = lambda: None
    ) -> None:
        """`get_read_error`: why no more is read though the client has not gone."""
        self._receive = receive
        self._get_read_error = get_read_error
        self._splitter = LineSplitter(limiter.max_line_bytes)
        self._spool = Spool(limiter)
        self._limiter = limiter
        self._data_ready, self._space_free = asyncio.Event(), asyncio.Event()
        self._lines: deque[BodyLine] = deque()
        self._complete = self._disconnected = self._send_pending = False
        self._error: Exception | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._owner_task = asyncio.current_task()
        self._batches_in_progress = 0  # portions that are being answered: meanwhile it is not the client's turn
        self._last_activity = asyncio.get_running_loop().time()  # when the client has last sent or taken something
        self.first_unanswered = 1  # the first line that has no answer yet
        self.response_started = False

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._read_body()), asyncio.create_task(self._watch_idle())]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self._spool.close()
        if self._disconnected and isinstance(error, asyncio.CancelledError):
            if self._owner_task is not None:
                self._owner_task.uncancel()
            raise ClientDisconnect from None

    async def _read_body(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                cut_off = self._get_read_error()
                if cut_off is not None:
                    self._fail(cut_off)
                    return
                self._cancel_owner()
                return
            self._note_activity()
            if self._error is not None:
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
            self._data_ready.set()
            while len(self._spool) >= MAX_READ_AHEAD_BYTES and not self._send_pending:
                self._space_free.clear()
                await self._space_free.wait()

    async def _watch_idle(self) -> None:
        """Ends the stream of a client that makes no use of its turn."""
        loop = asyncio.get_running_loop()
        while True:
            limit = self._limiter.idle_timeout_s if self.response_started else self._limiter.first_idle_timeout_s
            left = self._last_activity + limit - loop.time()
            if left <= 0 and not self._batches_in_progress:
                break
            await asyncio.sleep(left if left > 0 else limit)
        if self._send_pending:
            self._cancel_owner()  # it takes nothing: neither would it take the reason
        else:
            self._fail(
                BodyTimeoutError(
                    f"nothing was sent for {limit:g} s: send on, or end the body (the limit is LABELWATCH_API_IDLE_S)",
                    close=True,
                )
            )

    def _note_activity(self) -> None:
        self._last_activity = asyncio.get_running_loop().time()

    def _cancel_owner(self) -> None:
        self._disconnected = True
        if self._owner_task is not None:
            self._owner_task.cancel()

    def _fail(self, error: Exception) -> None:
        """Told once what was read before is answered."""
        self._error = error
        self._data_ready.set()

    @contextmanager
    def processing(self) -> Iterator[None]:
        """While lines are being answered the client may well wait for that."""
        self._batches_in_progress += 1
        try:
            yield
        finally:
            self._batches_in_progress -= 1
            self._note_activity()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """For as long as the client does not take what is sent to it, the body is read on."""
        self._send_pending = True
        self._space_free.set()
        try:
            yield
        finally:
            self._send_pending = False
            self._note_activity()

    def mark_answered(self, lines: Sequence[BodyLine]) -> None:
        if lines:
            self.first_unanswered = lines[-1].number + 1

    async def read_batch(self, max_lines: int = MAX_BATCH_LINES, *, wait: bool = True) -> list[BodyLine]:
        """The next lines: those that are there, some at a time. None at the end of the body, or without `wait`."""
        found: list[BodyLine] = []
        size = 0
        while True:
            while self._lines and len(found) < max_lines and size < MAX_BATCH_BYTES:
                found.append(self._lines.popleft())
                size += len(found[-1].raw or b"")
            if self._lines or size >= MAX_BATCH_BYTES or (found and not len(self._spool)):
                return found
            while not (len(self._spool) or self._complete or self._error):
                if not wait:
                    return found
                self._data_ready.clear()
                await self._data_ready.wait()
            if self._error is not None and not len(self._spool):
                if wait:
                    raise self._error
                return found
            data = self._spool.read(READ_CHUNK_BYTES)
            self._space_free.set()
            if not data:
                return found + self._splitter.flush()
            self._lines.extend(self._splitter.feed(data))


class NdjsonResponse(Response):
    """Answers an NDJSON body line by line.

    The first lines are answered before anything is sent, so that a queue that is full or a log that does not answer
    still is a status. Later the error stands in the place of the answers, with the first line that has none.
    With `ahead` the next lines are worked on while some are answered; without, they come strictly one after the other.
    """

    media_type = NDJSON_MEDIA_TYPE

    def __init__(
        self,
        handler: LineHandler,
        *,
        limiter: StreamLimiter,
        request_id: str,
        status_code: int = 200,
        concurrent: bool = False,
        first_batch_lines: int = MAX_BATCH_LINES,
        batch_lines: int = MAX_BATCH_LINES,
    ) -> None:
        """`first_batch_lines` and `at_once`: lines that are handed over together, at most."""
        super().__init__(status_code=status_code)
        del self.headers["content-length"]
        self._handler = handler
        self._limiter = limiter
        self._request_id = request_id
        self._concurrent = concurrent
        self._first_batch_lines, self._batch_lines = first_batch_lines, batch_lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def cut_off() -> Exception | None:
            return cast("Exception | None", scope.get("state", {}).get(BODY_TOO_LARGE_KEY))

        with self._limiter.acquire():
            async with Upload(receive, self._limiter, get_read_error=cut_off) as upload:
                lines = await upload.read_batch(self._first_batch_lines)
                with upload.processing():
                    answers = await self._handler(lines, True) if lines else []
                with upload.sending():
                    await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                upload.response_started = True
                await _send_lines(upload, send, answers)
                upload.mark_answered(lines)
                try:
                    await self._stream_rest(upload, send)
                except LabelwatchError as error:
                    log_unexplained_error(error)
                    told = (
                        _with_resume_line(error, upload.first_unanswered - 1)
                        if isinstance(error, TooLargeError)
                        else error
                    )
                    problem = to_problem(told, request_id=self._request_id, line=upload.first_unanswered)
                    await _send_lines(upload, send, [encode_problem(problem) + b"\n"])
                with upload.sending():
                    await send(_build_body_message(b"", more=False))

    async def _stream_rest(self, upload: Upload, send: Send) -> None:
        tasks: deque[tuple[list[BodyLine], asyncio.Task[list[bytes]]]] = deque()

        async def answers_to(lines: list[BodyLine]) -> list[bytes]:
            with upload.processing():
                return await self._handler(lines, False)

        try:
            while True:
                lines = await upload.read_batch(self._batch_lines, wait=not tasks)
                if lines:
                    tasks.append((lines, asyncio.ensure_future(answers_to(lines))))
                elif not tasks:
                    return
                if lines and self._concurrent and len(tasks) < MAX_CONCURRENT_BATCHES:
                    continue
                of, task = tasks[0]
                answers = await task
                tasks.popleft()
                await _send_lines(upload, send, answers)
                upload.mark_answered(of)
        finally:
            for _, task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait([task for _, task in tasks])


def _with_resume_line(error: TooLargeError, lines: int) -> TooLargeError:
    return TooLargeError(f"{error}; {lines:,} lines were taken and answered, go on with line {lines + 1}")


async def _send_lines(upload: Upload, send: Send, lines: Sequence[bytes]) -> None:
    """Whole lines, some at a time."""
    some, size = [], 0
    for place, line in enumerate(lines, 1):
        some.append(line)
        size += len(line)
        if size >= SEND_CHUNK_BYTES or place == len(lines):
            with upload.sending():
                await send(_build_body_message(b"".join(some)))
            some, size = [], 0


def _build_body_message(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}
