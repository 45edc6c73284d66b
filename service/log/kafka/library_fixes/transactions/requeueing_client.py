"""A network client that does not lose transactional requests.

Bug: the producer's sender takes a transactional request from its queue and waits for the broker. If `await_ready`
raises, the sender logs the error and drops the request.
Symptom: `send_offsets_to_transaction`, `commit_transaction` or `abort_transaction` waits forever after a broker has died.
Remove it when: `Sender._maybe_send_pending_request` retries the request after an exception. The chaos tests show it.
"""

from __future__ import annotations

import time

from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

NOT_READY_BACKOFF_S = 0.1


def create_requeueing_client(**config: object) -> KafkaNetClient:
    """Creates a client whose `await_ready` returns False instead of raising: the sender then queues the request again."""
    client = KafkaNetClient(**config)
    original = client.await_ready

    def await_ready(node_id: object, timeout_ms: int = 30_000) -> bool:
        try:
            return bool(original(node_id, timeout_ms=timeout_ms))
        except KafkaError:
            time.sleep(NOT_READY_BACKOFF_S)
            return False

    client.await_ready = await_ready
    return client
