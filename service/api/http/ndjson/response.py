"""The response to an NDJSON body."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Final, cast

from starlette.responses import Response

from service.api.http.media_types import NDJSON_MEDIA_TYPE
from service.api.http.middleware.request_limits import BODY_TOO_LARGE_KEY
from service.api.http.ndjson.lines import BodyLine
from service.api.http.ndjson.upload import Upload
from service.api.http.problems import TooLargeError, log_unexplained_error, render_problem_line
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from service.api.http.ndjson.limiter import StreamLimiter

MAX_BATCH_LINES: Final = 64
MAX_BATCH_RECORDS: Final = 8  # a platform record may hold many sentences
SEND_CHUNK_BYTES: Final = 1 << 16  # each chunk that the client takes shows that it is alive
MAX_CONCURRENT_BATCHES: Final = 2

LineHandler = Callable[[Sequence[BodyLine], bool], Coroutine[None, None, list[bytes]]]
"""Answers lines, each answer with its newline. The flag says whether they are the first lines of the body."""


class NdjsonResponse(Response):
    """Answers an NDJSON body line by line.

    The first lines are answered before the status is sent, so a full queue or a log that does not answer still gets its
    own status. Later an error ends the response with a problem that names the first line without an answer.
    With `concurrent` the handler works on the next batch of lines before the last one is sent.
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
        """`first_batch_lines`, `batch_lines`: how many lines the handler gets at once, at most."""
        super().__init__(status_code=status_code)
        del self.headers["content-length"]
        self._handler = handler
        self._limiter = limiter
        self._request_id = request_id
        self._concurrent = concurrent
        self._first_batch_lines, self._batch_lines = first_batch_lines, batch_lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        def get_read_error() -> Exception | None:
            return cast("Exception | None", scope.get("state", {}).get(BODY_TOO_LARGE_KEY))

        with self._limiter.acquire():
            async with Upload(receive, self._limiter, get_read_error=get_read_error) as upload:
                lines = await upload.read_batch(self._first_batch_lines)
                with upload.suspend_idle_timeout():
                    answers = await self._handler(lines, True) if lines else []
                with upload.lift_read_ahead_limit():
                    await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                upload.response_started = True
                await _send_lines(upload, send, answers)
                upload.mark_answered(lines)
                try:
                    await self._stream_rest(upload, send)
                except LabelwatchError as error:
                    log_unexplained_error(error)
                    line = upload.first_unanswered
                    final = _with_resume_line(error, line) if isinstance(error, TooLargeError) else error
                    await _send_lines(
                        upload, send, [render_problem_line(final, request_id=self._request_id, line=line)]
                    )
                with upload.lift_read_ahead_limit():
                    await send(_build_body_message(b"", more=False))

    async def _stream_rest(self, upload: Upload, send: Send) -> None:
        tasks: deque[tuple[list[BodyLine], asyncio.Task[list[bytes]]]] = deque()

        async def answer(lines: list[BodyLine]) -> list[bytes]:
            with upload.suspend_idle_timeout():
                return await self._handler(lines, False)

        try:
            while True:
                lines = await upload.read_batch(self._batch_lines, wait=not tasks)
                if lines:
                    tasks.append((lines, asyncio.ensure_future(answer(lines))))
                elif not tasks:
                    return
                if lines and self._concurrent and len(tasks) < MAX_CONCURRENT_BATCHES:
                    continue
                answered_lines, task = tasks[0]
                answers = await task
                tasks.popleft()
                await _send_lines(upload, send, answers)
                upload.mark_answered(answered_lines)
        finally:
            for _, task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait([task for _, task in tasks])


def _with_resume_line(error: TooLargeError, line: int) -> TooLargeError:
    return TooLargeError(f"{error}; {line - 1:,} lines are answered, continue with line {line}")


async def _send_lines(upload: Upload, send: Send, lines: Sequence[bytes]) -> None:
    """Sends whole lines in chunks."""
    chunk, size = [], 0
    for count, line in enumerate(lines, 1):
        chunk.append(line)
        size += len(line)
        if size >= SEND_CHUNK_BYTES or count == len(lines):
            with upload.lift_read_ahead_limit():
                await send(_build_body_message(b"".join(chunk)))
            chunk, size = [], 0


def _build_body_message(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}
