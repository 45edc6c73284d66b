"""The way of a request's messages into the log.

    route ─ await append() ─▶ slot ─▶ thread of the pool ─ unless the broker is known to be down ─▶ log ─▶ producer

A request without a slot, a thread or an answer of the log in time gets 503 with `Retry-After`.

The pool is separate from the event loop's own threads, and bounded: a log that hangs blocks the requests that write to
it, and no request that reads.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from service.log.protocol import Log, Output

TIMEOUT_SHARE: Final = 0.5  # of the request's time: the client gets 503 "the log does not answer" instead of 504
DEFAULT_THREADS: Final = 16
MAX_PENDING_APPENDS: Final = 256  # running or waiting for a thread: as many are a burst, more are a log that hangs


class LogAppender:
    """Appends to the log without blocking the event loop. Raises `StreamError` when the log does not answer in time.

    `get_broker_error` returns why the broker can't be reached, if that is already known: then no request waits for it.
    """

    def __init__(
        self,
        log: Log,
        *,
        request_timeout_s: float,
        get_broker_error: Callable[[], str | None] = lambda: None,
        threads: int = DEFAULT_THREADS,
        max_pending: int = MAX_PENDING_APPENDS,
    ) -> None:
        self._log = log
        self._timeout_s = TIMEOUT_SHARE * request_timeout_s
        self._get_broker_error = get_broker_error
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="append")
        self._slots = threading.Semaphore(max_pending)
        self._max_pending = max_pending

    async def append(self, outputs: Sequence[Output]) -> None:
        await self._run(lambda timeout: self._log.append(outputs, timeout=timeout))

    async def write(self, write: Callable[[Log, float], None]) -> None:
        """Runs a function that writes to the log. It gets the log and the seconds that it may take."""
        await self._run(lambda timeout: write(self._log, timeout))

    def close(self) -> None:
        """Waits for the appends in progress: the log must stay open until they end."""
        self._pool.shutdown(cancel_futures=True)

    async def _run(self, append: Callable[[float], None]) -> None:
        if not self._slots.acquire(blocking=False):
            raise StreamError(f"{self._max_pending} requests wait for the log already: try again later")
        deadline = time.monotonic() + self._timeout_s

        def append_before_deadline() -> None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise StreamError(
                    f"no thread was free within {self._timeout_s:g} s to write to the log: try again later"
                )
            error = self._get_broker_error()
            if error is not None:
                raise StreamError(error)
            append(remaining)

        try:
            future = self._pool.submit(contextvars.copy_context().run, append_before_deadline)
        except RuntimeError:
            self._slots.release()
            raise StreamError("the log is closed because the service is stopping: try again later") from None
        # The slot is free again when the append ends, even if the client disconnects long before.
        future.add_done_callback(self._release_slot)
        await asyncio.wrap_future(future)

    def _release_slot(self, _: Future[None]) -> None:
        self._slots.release()
