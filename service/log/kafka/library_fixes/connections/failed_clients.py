"""Ends what a client has started if its constructor fails.

Bug: `KafkaConsumer` and `KafkaAdminClient` start their I/O thread before they ask a broker for the version. If none answers,
the constructor raises: nobody has the client, and nothing ends the thread. `KafkaProducer` has no thread by then, but sockets.
Symptom: each attempt to create a client while brokers are down or hang leaves a thread `kafka-io-…` and three file
descriptors until the process ends.
Remove it when: the tests in `test_failed_clients.py` pass without it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

from kafka.net.compat import KafkaNetClient

from service.log.kafka.client_errors import CLIENT_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


ClientT = TypeVar("ClientT")


def create_or_close(
    client_class: Callable[..., ClientT],
    config: Mapping[str, object],
    *,
    network_client: Callable[..., KafkaNetClient] = KafkaNetClient,
) -> ClientT:
    """Creates a client with a network client that is closed if the constructor raises."""
    created: list[KafkaNetClient] = []

    def create_network_client(**options: object) -> KafkaNetClient:
        created.append(network_client(**options))
        return created[-1]

    try:
        return client_class(**config, kafka_client=create_network_client)
    except BaseException:
        for each in created:
            with contextlib.suppress(*CLIENT_ERRORS):
                each.close()
        raise
