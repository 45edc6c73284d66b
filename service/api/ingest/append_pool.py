"""The threads in which requests write to the log.

They are their own, and bounded: a log that hangs holds up those who write to it, and nobody who reads.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from service.errors import StreamError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

DEFAULT_THREADS = 16
MAX_PENDING_WRITES = 256  # who write or wait for a thread: so many are a burst, more of them a log that hangs


class AppendPool:
    """`run` is called in an event loop."""

    def __init__(self, *, threads: int = DEFAULT_THREADS, max_pending: int = MAX_PENDING_WRITES) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="append")
        self._slots = threading.Semaphore(max_pending)
        self._max_pending = max_pending

    async def run(self, write: Callable[[float], None], *, timeout: float) -> None:
        """`write` is given what is left of the time once a thread is free. Raises `StreamError` where too many wait."""
        if not self._slots.acquire(blocking=False):
            raise StreamError(f"{self._max_pending} requests wait for the log already: try again later")
        until = time.monotonic() + timeout

        def work() -> None:
            left = until - time.monotonic()
            if left <= 0:
                raise StreamError(f"others have waited {timeout:g} s for the log: try again later")
            write(left)

        # Room is given back when the write ends, even if whoever asked for it has gone long before.
        try:
            begun = self._pool.submit(contextvars.copy_context().run, work)
        except RuntimeError:
            self._slots.release()
            raise StreamError("the log is closed, since the service is stopping: try again later") from None
        begun.add_done_callback(self._release_slot)
        await asyncio.wrap_future(begun)

    def _release_slot(self, _: Future[None]) -> None:
        self._slots.release()

    def close(self) -> None:
        """Waits for the writes at hand: the log must not be closed under them."""
        self._pool.shutdown(cancel_futures=True)
