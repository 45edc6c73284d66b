"""Sends a transactional request again if a broker did not answer it in time.

Bug: a transactional request whose connection breaks is sent again, to the coordinator that is asked for anew. One that
times out, for which the client closes the connection as well, is a fatal error of the producer.
Symptom: when a coordinator hangs, a worker loses its transaction, needs a new producer and restores every partition: the
two hangs of twenty faults took 16.4 and 17.2 s.
With it, a request that no coordinator answers is sent again without end: each caller needs a `TransactionDeadline`.
Remove it when: `TxnRequestHandler.on_complete` handles a time-out like a lost connection, as the client in Java does.
"""

from __future__ import annotations

from kafka.errors import KafkaConnectionError, RequestTimedOutError
from kafka.producer.transaction_manager import TxnRequestHandler


def retry_timed_out_requests() -> None:
    original = TxnRequestHandler.on_complete

    def on_complete(self: TxnRequestHandler, correlation_id: int, response_or_error: object) -> None:
        if isinstance(response_or_error, RequestTimedOutError):
            response_or_error = KafkaConnectionError(str(response_or_error))
        original(self, correlation_id, response_or_error)

    TxnRequestHandler.on_complete = on_complete
