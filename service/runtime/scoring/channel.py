"""The channel between the first process of the API and a scoring process. Its messages carry clients' connections.

    first process ── CONNECTION ─▶ scoring process    a connection, as a file descriptor
                  ── METRICS ────▶                    asks for the metrics
                  ◀─ HANDOVER ───  a connection whose next request is for the first process, with the bytes read so far
                  ◀─ CLOSED ─────  the number of a connection that has ended
                  ◀─ ALIVE ──────  its event loop runs: once a second
                  ◀─ STATUS ─────  why the process is not ready; empty: it is
                  ◀─ METRICS ────  its metrics

It is a sequenced-packet socket, which keeps messages apart and in order. Large messages are sent in parts. If one side
ends, the other receives the end of the channel.
"""

from __future__ import annotations

import select
import socket
import struct
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from service.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PART_BYTES: Final = 1 << 15  # a part must fit into the buffer of the socket
# The longest that a waiting sender takes to see that the other side does not receive any more.
WAIT_INTERVAL_MS: Final = 100
_HEADER: Final = struct.Struct("!cQ?")  # kind, number, whether it is the last part

_DESCRIPTOR: Final = struct.Struct("i")


class Kind(Enum):
    CONNECTION = b"c"
    HANDOVER = b"h"
    CLOSED = b"x"
    ALIVE = b"a"
    STATUS = b"s"
    METRICS = b"m"


class ChannelMessage(NamedTuple):
    """`number`: of the connection. `descriptor`: the connection itself, which belongs to the receiver."""

    kind: Kind
    number: int
    data: bytes
    descriptor: int | None


class ChannelClosedError(Exception):
    """The other side has ended, or has closed the channel."""


class Channel:
    """Any thread may send. One thread receives."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._parts: dict[tuple[Kind, int], bytearray] = {}

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(
        self, kind: Kind, number: int = 0, data: bytes = b"", *, descriptor: int | None = None, wait: bool = True
    ) -> None:
        """Waits while the channel is full; without `wait` that raises `BlockingIOError`. The descriptor is copied."""
        for start in range(0, max(1, len(data)), MAX_PART_BYTES):
            part = data[start : start + MAX_PART_BYTES]
            is_last = start + MAX_PART_BYTES >= len(data)
            packet = _HEADER.pack(kind.value, number, is_last) + part
            rights = _pack_descriptor(descriptor) if is_last and descriptor is not None else []
            while not self._send_packet(packet, rights):
                if not wait:
                    raise BlockingIOError
                poll = select.poll()
                poll.register(self._socket, select.POLLOUT)
                poll.poll(WAIT_INTERVAL_MS)

    def _send_packet(self, packet: bytes, rights: list[tuple[int, int, bytes]]) -> bool:
        """False if the channel is full. It never waits: an event loop may have made the socket non-blocking."""
        try:
            # Not `socket.send_fds` and `recv_fds`: those of Python 3.11 ignore the flags.
            self._socket.sendmsg([packet], rights, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ChannelClosedError from error
        return True

    def receive(self) -> Iterator[ChannelMessage]:
        """The messages that have arrived. Raises `ChannelClosedError` at the end of the channel."""
        while True:
            try:
                packet, rights, _, _ = self._socket.recvmsg(
                    _HEADER.size + MAX_PART_BYTES,
                    socket.CMSG_SPACE(_DESCRIPTOR.size),
                    socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC,
                )
            except BlockingIOError:
                return
            except OSError as error:
                raise ChannelClosedError from error
            if not packet:
                raise ChannelClosedError
            code, number, is_last = _HEADER.unpack_from(packet)
            key = Kind(code), number
            data = self._parts.setdefault(key, bytearray())
            data += packet[_HEADER.size :]
            if is_last:
                del self._parts[key]
                yield ChannelMessage(*key, bytes(data), _unpack_descriptor(rights))

    def end(self) -> None:
        """The other side receives the end of the channel. This side may still receive."""
        self._shut_down(socket.SHUT_WR)

    def stop_receiving(self) -> None:
        """The other side can't send any more, also if it waits to send now."""
        self._shut_down(socket.SHUT_RD)

    def _shut_down(self, direction: int) -> None:
        try:
            self._socket.shutdown(direction)
        except OSError:  # the other side has ended already
            return

    def close(self) -> None:
        self._socket.close()


def _pack_descriptor(descriptor: int) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(descriptor))]


def _unpack_descriptor(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            return int(_DESCRIPTOR.unpack_from(data)[0])
    return None


def open_channel() -> tuple[Channel, socket.socket]:
    """The side of this process, and the socket of the other."""
    if not hasattr(socket, "SOCK_SEQPACKET") or not hasattr(socket, "MSG_CMSG_CLOEXEC"):
        raise SettingsError("LABELWATCH_API_PROCESSES: more than 1 needs Linux: leave it out, or set it to 1")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours), theirs
