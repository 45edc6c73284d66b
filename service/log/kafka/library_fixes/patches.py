"""Remedies for what the Kafka library gets wrong by itself: its own classes and loggers are changed, once a process.

- One record with a header key that is not UTF-8 puts a consumer into an endless loop: such a key is read leniently,
  and written again as the bytes it came with.
- While a coordinator is away the library logs hundreds of warnings a second, some with tracebacks: they are thinned out.
- Each attempt to reach a broker that is away leaves a socket open: it is closed.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from typing import TYPE_CHECKING, cast

from kafka.net.inet import KafkaNetSocket
from kafka.record.default_records import DefaultRecordBatch

if TYPE_CHECKING:
    import socket

    from kafka.net.selector import NetworkSelector

NOISY_LOGGERS = (
    "kafka.cluster",
    "kafka.consumer.fetcher",
    "kafka.coordinator",
    "kafka.coordinator.base",
    "kafka.coordinator.consumer",
    "kafka.coordinator.heartbeat",
    "kafka.net.connection",
    "kafka.net.manager",
    "kafka.net.selector",
    "kafka.net.transport",
    "kafka.producer.sender",
    "kafka.producer.transaction_manager",
)

MAX_MESSAGE_KINDS = 1_000  # of messages that are remembered; the library writes anything into some of them
_NUMBER = re.compile(r"\d+")

_patch_lock = threading.Lock()
_patched = threading.Event()


def patch_library() -> None:
    """Once a process: the library's own classes and loggers are what has to be changed."""
    with _patch_lock:
        if not _patched.is_set():
            _rate_limit_logs()
            _patch_header_decoding()
            _close_failed_sockets()
            _patched.set()


class RateLimitFilter(logging.Filter):
    """Lets one message of a kind through per interval, without a traceback, and has it say how many were left out.

    What differs only in numbers is of one kind.
    """

    def __init__(self, interval: float = 10.0) -> None:
        super().__init__()
        self._interval = interval
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = (record.name, _NUMBER.sub("0", str(record.msg))), time.monotonic()
        told, left_out = self._seen.get(kind, (float("-inf"), 0))
        if now - told < self._interval:
            self._seen[kind] = (told, left_out + 1)
            return False
        if len(self._seen) >= MAX_MESSAGE_KINDS:
            self._seen.clear()
        self._seen[kind] = (now, 0)
        said = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            # Where in the library a connection broke helps nobody; what it broke of does.
            said, record.exc_info = f"{said} ({describe_error(record.exc_info[1])})", None
        if left_out:
            said = f"{said} ({left_out} more like this were left out)"
        record.msg, record.args = said, ()
        return True


class NonUtf8HeaderKey(str):
    """A header key that is not UTF-8: shown with the odd bytes replaced, written as the bytes it came with."""

    __slots__ = ("raw",)
    raw: bytes

    @classmethod
    def from_bytes(cls, raw: bytes) -> NonUtf8HeaderKey:
        made = cls(raw.decode(errors="replace"))
        made.raw = raw
        return made

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:  # noqa: ARG002 - as str has it
        return self.raw


class _LenientBuffer(bytearray):
    """A record's bytes, whose parts decode whatever they hold."""

    def __getitem__(self, at: slice | int) -> _LenientBuffer | int:  # type: ignore[override]  # a slice stays lenient
        found = super().__getitem__(at)
        return found if isinstance(found, int) else _LenientBuffer(found)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return super().decode(encoding, errors)
        except UnicodeDecodeError:
            return NonUtf8HeaderKey.from_bytes(bytes(self))


def _rate_limit_logs() -> None:
    limit = RateLimitFilter()
    for name in NOISY_LOGGERS:
        logging.getLogger(name).addFilter(limit)


def _patch_header_decoding() -> None:
    strict = DefaultRecordBatch._read_msg  # noqa: SLF001 - it has no other place where a header key is decoded

    def read_msg(batch: DefaultRecordBatch) -> object:
        try:
            return strict(batch)
        except UnicodeDecodeError:
            kept, batch._buffer = batch._buffer, _LenientBuffer(batch._buffer)  # noqa: SLF001
            try:
                return strict(batch)
            finally:
                batch._buffer = kept  # noqa: SLF001

    DefaultRecordBatch._read_msg = read_msg  # noqa: SLF001


def _close_failed_sockets() -> None:
    leaky = KafkaNetSocket.sock_connect

    async def sock_connect(
        own: KafkaNetSocket,
        net: NetworkSelector,
        sock: socket.socket,
        sockaddr: object,
        timeout_at: float | None = None,
    ) -> socket.socket:
        try:
            return cast("socket.socket", await leaky(own, net, sock, sockaddr, timeout_at=timeout_at))
        except BaseException:
            sock.close()
            raise

    KafkaNetSocket.sock_connect = sock_connect


def describe_error(error: BaseException) -> str:
    """What went wrong, with its kind; the client's own errors tell their kind themselves."""
    kind, told = type(error).__name__, str(error)
    return told if told.startswith(kind) else f"{kind}: {told}"
