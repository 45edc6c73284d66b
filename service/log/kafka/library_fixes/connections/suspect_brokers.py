"""Shares between the clients of a process which brokers could not be reached a moment ago.

Gap: each client chooses a broker at random for its bootstrap, its metadata and its questions about coordinators. One that
hangs accepts connections and never answers, and each new client finds that out again.
Symptom: while a broker hangs, every third client of a worker stands still until a time-out, and a recovery needs several.
Remove it when: a client tries another broker after a short time, and remembers the one that did not answer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, cast

from kafka.cluster import ClusterMetadata
from kafka.errors import RequestTimedOutError
from kafka.net.manager import KafkaConnectionManager

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka.net.connection import KafkaConnection

SUSPECT_S = 10.0  # after the last failure
MAX_SUSPECTS = 1_000


class Broker(Protocol):
    """A broker as the client knows it from its metadata."""

    node_id: object
    host: str
    port: int


class SuspectBrokers:
    """Addresses of brokers that did not answer. Any thread may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed_at: dict[tuple[str, int], float] = {}

    def note(self, address: tuple[str, int], *, connected: bool) -> None:
        if connected:
            self._failed_at.pop(address, None)
        else:
            if len(self._failed_at) >= MAX_SUSPECTS:
                self._failed_at.clear()
            self._failed_at[address] = self._clock()

    def includes(self, broker: Broker | None) -> bool:
        failed_at = None if broker is None else self._failed_at.get((broker.host, broker.port))
        return failed_at is not None and self._clock() - failed_at < SUSPECT_S


def avoid_suspect_brokers() -> None:
    suspects = SuspectBrokers()
    connect = KafkaConnectionManager._connect  # noqa: SLF001 - there is no public seam
    least_loaded_node = KafkaConnectionManager.least_loaded_node
    bootstrap_brokers = ClusterMetadata.bootstrap_brokers

    def note_time_out(address: tuple[str, int], error: Exception) -> None:
        if isinstance(error, RequestTimedOutError):
            suspects.note(address, connected=False)

    async def connect_and_note(
        self: KafkaConnectionManager, node: Broker, conn: KafkaConnection, *args: object, **options: object
    ) -> None:
        address = node.host, node.port
        await connect(self, node, conn, *args, **options)
        if not self.closed:
            suspects.note(address, connected=conn.connected)
            conn.close_future.add_errback(lambda error: note_time_out(address, error))

    def choose_node(self: KafkaConnectionManager) -> object:
        chosen = least_loaded_node(self)
        if chosen is None or not suspects.includes(self.cluster.broker_metadata(chosen)):
            return chosen
        others = (broker for broker in self.cluster.brokers() if not suspects.includes(broker))
        return next((broker.node_id for broker in others if not self.connection_delay(broker.node_id)), chosen)

    def list_bootstrap_brokers(self: ClusterMetadata) -> list[Broker]:
        brokers = cast("list[Broker]", bootstrap_brokers(self))
        return [broker for broker in brokers if not suspects.includes(broker)] or brokers

    KafkaConnectionManager._connect = connect_and_note  # noqa: SLF001
    KafkaConnectionManager.least_loaded_node = choose_node
    ClusterMetadata.bootstrap_brokers = list_bootstrap_brokers
