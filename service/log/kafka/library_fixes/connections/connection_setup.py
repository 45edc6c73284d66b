"""Gives up sooner on a connection that is not set up.

Gap: the time-out is 10 s and grows to 30 s, and no client passes it on; a bootstrap waits for its whole time-out. A broker
that hangs still accepts connections.
Symptom: while a broker hangs, a client waits for it and does not ask the others who leads its partitions now.
Remove it when: `KafkaConsumer` and `KafkaProducer` accept `socket_connection_setup_timeout_ms`, and a bootstrap respects it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.net.manager import KafkaConnectionManager

if TYPE_CHECKING:
    from kafka.net.connection import KafkaConnection

SETUP_TIMEOUT_MS = 2_000
SETUP_TIMEOUT_MAX_MS = 5_000


def shorten_connection_setup() -> None:
    KafkaConnectionManager.DEFAULT_CONFIG |= {
        "socket_connection_setup_timeout_ms": SETUP_TIMEOUT_MS,
        "socket_connection_setup_timeout_max_ms": SETUP_TIMEOUT_MAX_MS,
    }
    original = KafkaConnectionManager.get_connection

    def get_connection(
        self: KafkaConnectionManager, node_id: object, timeout_ms: float | None = None, **options: object
    ) -> KafkaConnection:
        limit_ms = self.socket_connection_setup_timeout_ms(node_id)
        timeout_ms = limit_ms if timeout_ms is None else min(timeout_ms, limit_ms)
        return original(self, node_id, timeout_ms=timeout_ms, **options)

    KafkaConnectionManager.get_connection = get_connection
