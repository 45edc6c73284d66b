from __future__ import annotations

import socket

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaTCPTransport

from service.log.kafka.clients import create_admin_client
from service.log.kafka.library_fixes.patches import patch_library
from service.settings.kafka import KafkaSettings


def test_no_socket_is_left_open_when_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=1_000)
    with pytest.raises(KafkaTimeoutError):
        create_admin_client(settings)  # an open socket causes a ResourceWarning, which pytest turns into an error


def test_no_socket_is_left_open_when_a_client_with_unsent_bytes_is_closed() -> None:
    patch_library()
    with socket.create_server(("127.0.0.1", 0)) as server:
        net, sock = NetworkSelector(), socket.socket()
        sock.setblocking(False)
        connected = net.run(KafkaNetSocket().sock_connect, net, sock, server.getsockname())
        transport = KafkaTCPTransport(net, connected)
        transport._write_buffer.append(b"unsent")  # as a full buffer of the kernel leaves it
        transport.close()
        assert connected.fileno() != -1
        net.close()
        assert connected.fileno() == -1
