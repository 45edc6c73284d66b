"""Finds brokers that the cluster reaches and this worker does not.

A broker that is down loses its partitions to the others, and no worker has to do anything. A broker that only this worker
can't reach keeps them: then another worker must take over.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafka.protocol.metadata import MetadataRequest

from service.errors import StreamError
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_error
from service.log.kafka.clients import create_admin_client

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka import KafkaAdminClient

    from service.settings.kafka import KafkaSettings

logger = logging.getLogger(__name__)

PROBE_INTERVAL_S = 2.0
PROBE_TIMEOUT_MS = 2_000
MAX_SILENCE_MS = 3_000  # a broker fetches the metadata log at least twice a second
# So long a broker may be unreachable before the worker gives way, if the cluster hears it; else no fail-over takes longer.
CONFIRMED_S = 5.0
UNCONFIRMED_S = 15.0


class Cluster(Protocol):
    """The brokers, as this worker reaches them."""

    def list_answers(self) -> tuple[set[int], dict[int, str]]:
        """The brokers that answer, and the addresses of those that were asked and that others list as up."""

    def is_heard(self, broker: int) -> bool | None:
        """Whether the cluster hears a broker at this moment; None if it can't be asked."""

    def count_members(self) -> int:
        """How many workers the group has; 0 if it can't be asked."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A broker that this worker can't reach, though it is up."""

    broker: int
    address: str
    members: int = 0  # of the group, when the broker fell silent; 0 if that is not known

    def __str__(self) -> str:
        return f"broker {self.broker} at {self.address} can't be reached from here, though it is up"


class ReachabilityProbe:
    """Asks every broker in turn, in a thread of its own. `unreachable` may be read by any thread."""

    def __init__(self, open_cluster: Callable[[], Cluster], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._open_cluster = open_cluster
        self._clock = clock
        self._cluster: Cluster | None = None
        self._silent_since: dict[int, float] = {}
        self._members = 0  # when the first of the silent brokers fell silent
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.unreachable: Unreachable | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kafka-reachability", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closed.wait(PROBE_INTERVAL_S):
            self.step()
        self._close_cluster()

    def step(self) -> None:
        """One round. No broker at all that answers is no reason to give way: the group removes the worker by itself."""
        started_at = self._clock()
        try:
            if self._cluster is None:
                self._cluster = self._open_cluster()
            answered, listed = self._cluster.list_answers()
            silent = {broker: address for broker, address in listed.items() if broker not in answered}
            if silent and not self._silent_since:
                self._members = self._cluster.count_members()
            self._silent_since = {broker: self._silent_since.get(broker, started_at) for broker in silent}
            self.unreachable = next(
                (
                    Unreachable(broker, silent[broker], self._members)
                    for broker in silent
                    if self._must_give_way(self._cluster, broker)
                ),
                None,
            )
        except (StreamError, *CLIENT_ERRORS) as error:
            logger.debug("the brokers can't be asked: %s", describe_error(error))
            self._silent_since, self.unreachable = {}, None
            self._close_cluster()

    def _must_give_way(self, cluster: Cluster, broker: int) -> bool:
        silent_s = self._clock() - self._silent_since[broker]
        if silent_s < CONFIRMED_S:
            return False
        heard = cluster.is_heard(broker)
        return silent_s >= UNCONFIRMED_S if heard is None else heard

    def _close_cluster(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            with contextlib.suppress(*CLIENT_ERRORS):
                cluster.close()

    def close(self) -> None:
        self._closed.set()


class KafkaCluster:
    """A `Cluster` over an admin client, which keeps one connection to each broker."""

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._group = group
        self._client: KafkaAdminClient = create_admin_client(settings, request_timeout_ms=PROBE_TIMEOUT_MS)

    def list_answers(self) -> tuple[set[int], dict[int, str]]:
        manager = self._client._manager  # noqa: SLF001 - the public calls choose the broker themselves
        asked = {broker.node_id for broker in manager.cluster.brokers()}
        answered: set[int] = set()
        listed: dict[int, str] = {}

        async def ask(broker: int) -> None:
            response = await manager.send(MetadataRequest(topics=[]), broker, request_timeout_ms=PROBE_TIMEOUT_MS)
            answered.add(broker)
            listed.update({each.node_id: f"{each.host}:{each.port}" for each in response.brokers})

        for broker in sorted(asked):
            with contextlib.suppress(*CLIENT_ERRORS):
                manager.run(ask, broker)
        if not answered:
            raise StreamError("no broker answers")
        if not asked.issuperset(listed):
            manager.cluster.request_update()  # a broker is back, and is asked from the next round on
        return answered, {broker: address for broker, address in listed.items() if broker in asked}

    def is_heard(self, broker: int) -> bool | None:
        try:
            quorum = self._client.describe_metadata_quorum()["topics"][0]["partitions"][0]
        except CLIENT_ERRORS as error:
            logger.debug("the quorum can't be described: %s", describe_error(error))
            return None
        replicas = [*quorum["current_voters"], *quorum["observers"]]
        heard_at: dict[int, int] = {replica["replica_id"]: replica["last_fetch_timestamp"] for replica in replicas}
        # The newest time is that of the active controller itself. So its clock is compared with itself.
        newest = max(heard_at.values(), default=-1)
        if broker not in heard_at or newest < 0:
            return None
        return newest - heard_at[broker] < MAX_SILENCE_MS

    def count_members(self) -> int:
        try:
            return len(self._client.describe_groups([self._group])[self._group]["members"])
        except CLIENT_ERRORS as error:
            logger.debug("the group can't be described: %s", describe_error(error))
            return 0

    def close(self) -> None:
        self._client.close()
