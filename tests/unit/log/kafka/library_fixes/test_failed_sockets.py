from __future__ import annotations

import socket

import pytest
from kafka.errors import KafkaTimeoutError

from service.log.kafka.clients import create_admin_client
from service.settings.kafka import KafkaSettings


def test_no_socket_is_left_open_when_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}", request_timeout_ms=1_000)
    with pytest.raises(KafkaTimeoutError):
        create_admin_client(settings)  # an open socket causes a ResourceWarning, which pytest turns into an error
