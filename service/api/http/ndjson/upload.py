"""The body of an NDJSON request, read while its first lines are answered."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from starlette.requests import ClientDisconnect

from service.api.http.ndjson.limiter import SPOOL_FULL
from service.api.http.ndjson.lines import BodyLine, LineSplitter
from service.api.http.ndjson.spool import Spool
from service.api.http.problems import BodyTimeoutError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from starlette.types import Receive

    from service.api.http.ndjson.limiter import StreamLimiter

MAX_BATCH_BYTES: Final = 1 << 20
READ_CHUNK_BYTES: Final = 1 << 16
MAX_READ_AHEAD_BYTES: Final = 8 << 20


class Upload:
    """Reads the body of one request in a task of its own, until the client disconnects or the context ends.

    When the client disconnects, the task that created the upload is cancelled, and the end of the context raises
    `ClientDisconnect`.
    """

    def __init__(
        self, receive: Receive, limiter: StreamLimiter, *, get_read_error: Callable[[], Exception | None] = lambda: None
    ) -> None:
        """`get_read_error`: why reading ended although the client is still connected."""
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
        self._batches_in_progress = 0  # while there are any, it is not the client's turn
        self._last_activity = asyncio.get_running_loop().time()  # when the client last sent or took bytes
        self.first_unanswered = 1  # number of the first line without an answer
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
                read_error = self._get_read_error()
                if read_error is not None:
                    self._fail(read_error)
                    return
                self._cancel_owner()
                return
            self._note_activity()
            if self._error is not None:
                continue  # reads on only to notice a disconnect
            try:
                self._spool.write(message.get("body", b""))
            except TooLargeError as error:
                self._fail(error)
                continue
            except OSError:
                self._fail(TooLargeError(SPOOL_FULL))
                continue
            self._complete = not message.get("more_body", False)
            self._data_ready.set()
            while len(self._spool) >= MAX_READ_AHEAD_BYTES and not self._send_pending:
                self._space_free.clear()
                await self._space_free.wait()

    async def _watch_idle(self) -> None:
        """Ends the stream of a client that is idle although it is its turn."""
        loop = asyncio.get_running_loop()
        while True:
            timeout = self._limiter.idle_timeout_s if self.response_started else self._limiter.first_idle_timeout_s
            remaining = self._last_activity + timeout - loop.time()
            if remaining <= 0 and not self._batches_in_progress:
                break
            await asyncio.sleep(remaining if remaining > 0 else timeout)
        if self._send_pending:
            self._cancel_owner()  # the client takes no bytes, so it would not take a problem either
        else:
            self._fail(
                BodyTimeoutError(
                    f"nothing was sent for {timeout:g} s: continue, or end the body (the limit is LABELWATCH_API_IDLE_S)",
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
        """The error is raised after the lines read before it are answered."""
        self._error = error
        self._data_ready.set()

    @contextmanager
    def suspend_idle_timeout(self) -> Iterator[None]:
        """While lines are being answered the client may wait: it does not count as idle."""
        self._batches_in_progress += 1
        try:
            yield
        finally:
            self._batches_in_progress -= 1
            self._note_activity()

    @contextmanager
    def lift_read_ahead_limit(self) -> Iterator[None]:
        """While the client does not take what is sent to it, the body is read past `MAX_READ_AHEAD_BYTES`."""
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

    async def read_batch(self, max_lines: int, *, wait: bool = True) -> list[BodyLine]:
        """The next lines that have arrived. Empty at the end of the body; without `wait` also if none has arrived."""
        batch: list[BodyLine] = []
        size = 0
        while True:
            while self._lines and len(batch) < max_lines and size < MAX_BATCH_BYTES:
                batch.append(self._lines.popleft())
                size += len(batch[-1].raw or b"")
            if self._lines or size >= MAX_BATCH_BYTES or (batch and not len(self._spool)):
                return batch
            while not (len(self._spool) or self._complete or self._error):
                if not wait:
                    return batch
                self._data_ready.clear()
                await self._data_ready.wait()
            if self._error is not None and not len(self._spool):
                if wait:
                    raise self._error
                return batch
            data = self._spool.read(READ_CHUNK_BYTES)
            self._space_free.set()
            if not data:
                return batch + self._splitter.flush()
            self._lines.extend(self._splitter.feed(data))
