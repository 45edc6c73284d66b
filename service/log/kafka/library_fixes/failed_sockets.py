"""Closes the socket of a connection that failed.

Bug: `KafkaNetSocket.sock_connect` raises without closing the socket it was given.
Symptom: each attempt to reach a broker that is down leaks a file descriptor and emits a ResourceWarning.
Remove it when: `test_no_socket_is_left_open_when_nobody_listens` passes without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafka.net.inet import KafkaNetSocket

if TYPE_CHECKING:
    import socket

    from kafka.net.selector import NetworkSelector


def close_failed_sockets() -> None:
    original = KafkaNetSocket.sock_connect

    async def sock_connect(
        self: KafkaNetSocket,
        net: NetworkSelector,
        sock: socket.socket,
        sockaddr: object,
        timeout_at: float | None = None,
    ) -> socket.socket:
        try:
            return cast("socket.socket", await original(self, net, sock, sockaddr, timeout_at=timeout_at))
        except BaseException:
            sock.close()
            raise

    KafkaNetSocket.sock_connect = sock_connect
