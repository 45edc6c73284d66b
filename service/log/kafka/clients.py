"""Kafka clients as the settings ask for them, with remedies for what their library gets wrong.

- A transactional request that meets a dead broker is lost, and whoever waits for it waits for ever: `patient` has it
  queued again.
- A producer with unsent messages refuses to be closed at once: `dispose` insists.
- What has to be changed in the library itself is in `kafka_remedies`.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from kafka.serializer.wrapper import SerializeWrapper

from service.log.kafka.library_fixes.assignor import SortedRangeAssignor
from service.log.kafka.library_fixes.patches import patch_library
from service.log.protocol import Output, Record
from service.log.topics import MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.producer.future import FutureRecordMetadata

    from service.settings.kafka import KafkaSettings

# What may come out of the library, beside its own errors, when brokers come and go.
CLIENT_ERRORS = (KafkaError, OSError, RuntimeError, LookupError, AttributeError, ValueError, TypeError, AssertionError)
CLIENT_ID = "labelwatch"
RECONNECT_BACKOFF_MAX_MS = 1_000
METADATA_MAX_AGE_MS = 30_000
RETRY_BACKOFF_MS = 15
NOT_READY_BACKOFF_S = 0.1
APPEND_TIMEOUT_MS = 30_000
MAX_REQUEST_BYTES = MAX_OUTPUT_BYTES + 64 * 1024
NO_VALUE = object()  # the producer refuses a message with neither key nor value unless the value looks like something


def requeueing_client(**config: object) -> KafkaNetClient:
    """A network client that says "not ready" where its library would raise, so that no request is lost."""
    client = KafkaNetClient(**config)
    eager = client.await_ready

    def await_ready(node_id: object, timeout_ms: int = 30_000) -> bool:
        try:
            return bool(eager(node_id, timeout_ms=timeout_ms))
        except KafkaError:
            time.sleep(NOT_READY_BACKOFF_S)
            return False

    client.await_ready = await_ready
    return client


def build_client_config(settings: KafkaSettings) -> dict[str, object]:
    """What every client is told."""
    patch_library()
    given: dict[str, object] = {
        "bootstrap_servers": settings.servers,
        "client_id": CLIENT_ID,
        "security_protocol": settings.security_protocol,
        "request_timeout_ms": settings.request_timeout_ms,
        "bootstrap_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_max_ms": RECONNECT_BACKOFF_MAX_MS,
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
    }
    if settings.uses_sasl:
        given["sasl_mechanism"] = settings.sasl_mechanism
        if settings.sasl_password is not None:
            given["sasl_plain_username"] = settings.sasl_username
            given["sasl_plain_password"] = settings.sasl_password.get_secret_value()
    if settings.security_protocol.endswith("SSL"):
        files = {
            "ssl_cafile": settings.ssl_cafile,
            "ssl_certfile": settings.ssl_certfile,
            "ssl_keyfile": settings.ssl_keyfile,
        }
        given |= {name: str(path) for name, path in files.items() if path is not None}
        given["ssl_check_hostname"] = settings.ssl_check_hostname
        if settings.ssl_password is not None:
            given["ssl_password"] = settings.ssl_password.get_secret_value()
    return given


def create_consumer(
    settings: KafkaSettings, *, isolation: str = "read_committed", **overrides: object
) -> KafkaConsumer:
    """A consumer outside any group, unless `more` says otherwise; it never commits offsets by itself."""
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "allow_auto_create_topics": False}
    return KafkaConsumer(
        **build_client_config(settings), **(given | overrides), isolation_level=isolation, metrics_enabled=False
    )


def create_group_consumer(settings: KafkaSettings, *, group: str, worker_id: str | None) -> KafkaConsumer:
    """A consumer that shares the partitions of what it subscribes to with the others of its group.

    It has no offset to start from but the one it is told: an offset out of range is an error, never a silent jump.
    """
    return create_consumer(
        settings,
        group_id=group,
        group_instance_id=worker_id,
        auto_offset_reset="none",
        partition_assignment_strategy=(SortedRangeAssignor,),
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
    )


def create_producer(settings: KafkaSettings, *, transactional_id: str | None = None) -> KafkaProducer:
    """A producer whose messages are durable when they are acknowledged; with an id, one for transactions."""
    given = build_client_config(settings) | {
        "acks": "all",
        "allow_auto_create_topics": False,
        "compression_type": None if settings.compression_type == "none" else settings.compression_type,
        "max_request_size": MAX_REQUEST_BYTES,
        "max_block_ms": settings.request_timeout_ms,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "delivery_timeout_ms": max(settings.request_timeout_ms, APPEND_TIMEOUT_MS),
        "value_serializer": SerializeWrapper(lambda value: None if value is NO_VALUE else value),
        "kafka_client": requeueing_client,
        "metrics_enabled": False,
    }
    if transactional_id is not None:
        given |= {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": settings.transaction_timeout_ms,
            "delivery_timeout_ms": settings.delivery_timeout_ms,
            "request_timeout_ms": min(settings.request_timeout_ms, settings.delivery_timeout_ms),
        }
    return KafkaProducer(**given)


def create_admin_client(settings: KafkaSettings) -> KafkaAdminClient:
    return KafkaAdminClient(**build_client_config(settings))


def send(producer: KafkaProducer, output: Output) -> FutureRecordMetadata:
    nothing = output.key is None and output.value is None
    return producer.send(
        output.topic,
        key=output.key,
        value=NO_VALUE if nothing else output.value,
        headers=list(output.headers),
        partition=output.partition,
    )


def dispose(producer: KafkaProducer) -> None:
    """Ends a producer now, whatever it still holds."""
    try:
        producer.close(timeout=0)
    except CLIENT_ERRORS:
        producer._sender.force_close()  # noqa: SLF001 - close() gives up before it gets there
        with contextlib.suppress(*CLIENT_ERRORS):
            producer.close(timeout=1)


def to_records(messages: Sequence[ConsumerRecord]) -> list[Record]:
    """As the log holds them; only a header without any value can't be told from an empty one.

    A producer may say what it likes of the time: nothing was sent later than now, or before 1970.
    """
    now = int(time.time() * 1000)
    return [
        Record(
            message.topic,
            message.partition,
            message.offset,
            message.key,
            message.value,
            tuple((key, value or b"") for key, value in message.headers),
            max(0, min(message.timestamp, now)),
        )
        for message in messages
    ]
