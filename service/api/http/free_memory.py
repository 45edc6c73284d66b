"""Gives memory that large bodies took back to the system."""

from __future__ import annotations

import asyncio
import ctypes
from typing import Final

# The parts of a body are small for the allocator, which keeps them: 66 of 96 MB stayed with the process.
MIN_FREED_BYTES: Final = 16_000_000
DELAY_S: Final = 1.0  # the last references to a body end after its request


class FreedMemory:
    """Counts the bytes of bodies that are no longer held, and trims the heap after many of them. One event loop uses it."""

    def __init__(self) -> None:
        self._freed_bytes = 0
        self._is_scheduled = False

    def add(self, freed_bytes: int) -> None:
        self._freed_bytes += freed_bytes
        if self._freed_bytes < MIN_FREED_BYTES or self._is_scheduled:
            return
        self._is_scheduled = True
        asyncio.get_running_loop().call_later(DELAY_S, self._trim)

    def _trim(self) -> None:
        self._freed_bytes, self._is_scheduled = 0, False
        asyncio.get_running_loop().run_in_executor(None, trim_heap)


def trim_heap() -> None:
    """Returns free memory to the system, where the C library can (glibc). It holds no lock of Python."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
