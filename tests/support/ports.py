"""Ports of this machine that nothing listens on."""

from __future__ import annotations

import contextlib
import socket

HOST = "127.0.0.1"


def find_free_port() -> int:
    return find_free_ports(1)[0]


def find_free_ports(count: int) -> list[int]:
    """Different ports: all of them are held until the last is found."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((HOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]
