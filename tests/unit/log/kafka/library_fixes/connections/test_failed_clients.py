from __future__ import annotations

import os
import socket
import stat
import threading
from typing import TYPE_CHECKING

import pytest
from kafka.errors import KafkaTimeoutError

from service.log.kafka.clients import create_admin_client, create_consumer, create_group_consumer, create_producer
from service.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka import KafkaConsumer


def create_member(settings: KafkaSettings) -> KafkaConsumer:
    return create_group_consumer(settings, group="g", worker_id="one")


@pytest.fixture
def hung_broker() -> Iterator[KafkaSettings]:
    """It accepts connections and answers nothing, as a process that was stopped does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:{server.getsockname()[1]}")
        yield settings.model_copy(update={"request_timeout_ms": 600})  # shorter than settings allow


def count_sockets() -> int:
    return sum(stat.S_ISSOCK(os.fstat(number).st_mode) for number in range(1_000) if is_open(number))


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


@pytest.mark.parametrize("create", [create_consumer, create_member, create_admin_client, create_producer])
def test_a_client_that_no_broker_answers_leaves_nothing(
    create: Callable[[KafkaSettings], object], hung_broker: KafkaSettings
) -> None:
    """Loops try again for as long as brokers hang."""
    threads, sockets = set(threading.enumerate()), count_sockets()
    with pytest.raises(KafkaTimeoutError):
        create(hung_broker)
    assert set(threading.enumerate()) <= threads
    assert count_sockets() <= sockets
