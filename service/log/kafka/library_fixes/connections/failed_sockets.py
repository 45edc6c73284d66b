"""Closes the sockets of connections that failed, and of clients that are closed.

Bug: `KafkaNetSocket.sock_connect` raises without closing the socket it was given. And a transport that still has bytes to
send, or that is being set up, when its client is closed waits for an event loop that has ended.
Symptom: each attempt to reach a broker that is down, and some clients that are closed, leak a file descriptor and emit a
ResourceWarning.
Remove it when: the tests in `test_failed_sockets.py` pass without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector

if TYPE_CHECKING:
    import socket

_open_sockets: WeakKeyDictionary[NetworkSelector, set[socket.socket]] = WeakKeyDictionary()


def close_failed_sockets() -> None:
    original_connect, original_close = KafkaNetSocket.sock_connect, NetworkSelector.close

    async def sock_connect(
        self: KafkaNetSocket,
        net: NetworkSelector,
        sock: socket.socket,
        sockaddr: object,
        timeout_at: float | None = None,
    ) -> socket.socket:
        _open_sockets[net] = {each for each in _open_sockets.get(net, ()) if each.fileno() != -1} | {sock}
        try:
            return cast("socket.socket", await original_connect(self, net, sock, sockaddr, timeout_at=timeout_at))
        except BaseException:
            sock.close()
            raise

    def close(self: NetworkSelector) -> None:
        original_close(self)
        for sock in _open_sockets.pop(self, ()):
            sock.close()

    KafkaNetSocket.sock_connect = sock_connect
    NetworkSelector.close = close
