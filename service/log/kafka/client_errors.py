"""The errors of the Kafka client: which ones are handled, how they are described, and when they mean fencing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.errors import (
    FencedInstanceIdError,
    InvalidProducerEpochError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    ProducerFencedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka.producer.future import FutureRecordMetadata

# While brokers restart, the client raises errors of Python itself as well as its own.
CLIENT_ERRORS = (KafkaError, OSError, RuntimeError, LookupError, AttributeError, ValueError, TypeError, AssertionError)

# No broker has answered. Every other error is the answer of a broker, or one of this process.
SILENCE_ERRORS = (KafkaTimeoutError, KafkaConnectionError, NodeNotReadyError, ConnectionError, TimeoutError)

# Another process uses the worker's transactional id or group instance id.
# InvalidProducerEpochError is not one of them: a broker also answers it after it has aborted a transaction that timed
# out. The worker then creates a new producer, after it has checked which process holds its worker id.
WORKER_FENCED_ERRORS = (ProducerFencedError, FencedInstanceIdError)

# Another writer has begun a transaction under the shared transactional id. Both errors mean: begin again.
WRITER_FENCED_ERRORS = (ProducerFencedError, InvalidProducerEpochError)


def describe_error(error: BaseException) -> str:
    """Returns the error's class and text. The text of some of the client's errors begins with the class already."""
    class_name, text = type(error).__name__, str(error)
    return text if text.startswith(class_name) else f"{class_name}: {text}"


def describe_failure(servers: str, error: BaseException) -> str:
    """Names the brokers, and says whether they are silent: then their address or the network is at fault."""
    if isinstance(error, SILENCE_ERRORS):
        return f"Kafka at {servers} does not answer: {describe_error(error)}"
    return f"Kafka at {servers}: {describe_error(error)}"


def describe_missing_topic(topic: str) -> str:
    return (
        f"the topic {topic} does not exist: run `labelwatch topics create`; or it exists, and this user may not "
        "see it: grant READ and DESCRIBE"
    )


def is_caused_by(
    error: BaseException, error_classes: tuple[type[KafkaError], ...], futures: Iterable[FutureRecordMetadata] = ()
) -> bool:
    """Whether `error`, or the error of one of the futures, comes from one of the classes.

    The client raises the error itself, wraps it in another one, or only quotes its name in the text. Which of these
    depends on the thread that receives the broker's answer first.
    """
    errors = [error, *error.args, *(future.exception for future in futures if future.is_done)]
    return any(
        isinstance(candidate, error_classes) or any(kind.__name__ in str(candidate) for kind in error_classes)
        for candidate in errors
    )
