"""Creates Kafka clients from the settings, and converts messages between the client and the log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from service.log.kafka.library_fixes.connections.failed_clients import create_or_close
from service.log.kafka.library_fixes.groups.assignor import SortedRangeAssignor
from service.log.kafka.library_fixes.messages.empty_messages import EMPTY_VALUE, EMPTY_VALUE_SERIALIZER
from service.log.kafka.library_fixes.patches import patch_library
from service.log.kafka.library_fixes.transactions.requeueing_client import create_requeueing_client
from service.log.protocol import Output, Record
from service.log.topics import MAX_OUTPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka.consumer.fetcher import ConsumerRecord
    from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from kafka.producer.future import FutureRecordMetadata

    from service.settings.kafka import KafkaSettings

CLIENT_ID = "labelwatch"
RECONNECT_BACKOFF_MAX_MS = 1_000
METADATA_MAX_AGE_MS = 30_000
RETRY_BACKOFF_MS = 15
APPEND_TIMEOUT_MS = 30_000
PRODUCER_CLOSE_TIMEOUT_S = 5.0
MAX_REQUEST_BYTES = MAX_OUTPUT_BYTES + 64 * 1024


def build_client_config(settings: KafkaSettings) -> dict[str, object]:
    """The configuration that all clients share."""
    patch_library()
    config: dict[str, object] = {
        "bootstrap_servers": settings.servers,
        "client_id": CLIENT_ID,
        "security_protocol": settings.security_protocol,
        "request_timeout_ms": settings.request_timeout_ms,
        "bootstrap_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_max_ms": RECONNECT_BACKOFF_MAX_MS,
        "metadata_max_age_ms": METADATA_MAX_AGE_MS,
    }
    if settings.uses_sasl:
        config["sasl_mechanism"] = settings.sasl_mechanism
        if settings.sasl_password is not None:
            config["sasl_plain_username"] = settings.sasl_username
            config["sasl_plain_password"] = settings.sasl_password.get_secret_value()
    if settings.security_protocol.endswith("SSL"):
        files = {
            "ssl_cafile": settings.ssl_cafile,
            "ssl_certfile": settings.ssl_certfile,
            "ssl_keyfile": settings.ssl_keyfile,
        }
        config |= {name: str(path) for name, path in files.items() if path is not None}
        config["ssl_check_hostname"] = settings.ssl_check_hostname
        if settings.ssl_password is not None:
            config["ssl_password"] = settings.ssl_password.get_secret_value()
    return config


def create_consumer(
    settings: KafkaSettings, *, isolation: str = "read_committed", **overrides: object
) -> KafkaConsumer:
    """Creates a consumer without a group, unless `overrides` name one. It never commits offsets by itself."""
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "allow_auto_create_topics": False}
    required = {"isolation_level": isolation, "metrics_enabled": False}
    return create_or_close(KafkaConsumer, build_client_config(settings) | defaults | overrides | required)


def build_client_id(identity: str) -> str:
    """The client id of a worker in its group. Other workers find out by it who is alive."""
    return f"{CLIENT_ID}-{identity}"


def parse_client_id(client_id: str) -> str | None:
    """The identity in a client id; none if it has none."""
    prefix, _, identity = client_id.partition("-")
    return identity if prefix == CLIENT_ID and identity else None


def create_group_consumer(
    settings: KafkaSettings,
    *,
    group: str,
    worker_id: str | None,
    identity: str | None = None,
    assignor: type[AbstractPartitionAssignor] = SortedRangeAssignor,
) -> KafkaConsumer:
    """Creates a consumer of a group.

    It starts only from offsets that it is given: an offset out of range is an error and never a silent reset.
    """
    return create_consumer(
        settings,
        client_id=build_client_id(identity) if identity else CLIENT_ID,
        group_id=group,
        group_instance_id=worker_id,
        auto_offset_reset="none",
        partition_assignment_strategy=(assignor,),
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        request_timeout_ms=settings.attempt_timeout_ms,
    )


def create_producer(settings: KafkaSettings, *, transactional_id: str | None = None) -> KafkaProducer:
    """Creates a producer that waits for all in-sync replicas; with a transactional id, one for transactions."""
    config = build_client_config(settings) | {
        "acks": "all",
        "allow_auto_create_topics": False,
        "compression_type": None if settings.compression_type == "none" else settings.compression_type,
        "max_request_size": MAX_REQUEST_BYTES,
        "max_block_ms": settings.request_timeout_ms,
        "retry_backoff_ms": RETRY_BACKOFF_MS,
        "delivery_timeout_ms": _compute_append_timeout_ms(settings),
        "value_serializer": EMPTY_VALUE_SERIALIZER,
        "metrics_enabled": False,
    }
    if transactional_id is not None:
        config |= {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": settings.transaction_timeout_ms,
            "delivery_timeout_ms": settings.delivery_timeout_ms,
            "request_timeout_ms": settings.attempt_timeout_ms,
            "max_block_ms": settings.attempt_timeout_ms,
        }
    return create_or_close(KafkaProducer, config, network_client=create_requeueing_client)


def compute_max_append_s(settings: KafkaSettings) -> float:
    """The longest time from the start of an append until its messages are in the log, or never will be.

    The client may wait for a broker to answer (`bootstrap_timeout_ms`), then for the leader of the partition
    (`max_block_ms`), and then sends the message until it expires (`delivery_timeout_ms`), whatever time the append was given.
    """
    return (2 * settings.request_timeout_ms + _compute_append_timeout_ms(settings)) / 1000


def _compute_append_timeout_ms(settings: KafkaSettings) -> int:
    return max(settings.request_timeout_ms, APPEND_TIMEOUT_MS)


def create_admin_client(settings: KafkaSettings, **overrides: object) -> KafkaAdminClient:
    return create_or_close(KafkaAdminClient, build_client_config(settings) | overrides)


def send(producer: KafkaProducer, output: Output) -> FutureRecordMetadata:
    return producer.send(
        output.topic,
        key=output.key,
        value=EMPTY_VALUE if output.key is None and output.value is None else output.value,
        headers=list(output.headers),
        partition=output.partition,
    )


def to_records(messages: Sequence[ConsumerRecord]) -> list[Record]:
    """Converts messages without changing any bytes, except that a header without a value gets an empty one.

    Producers choose timestamps freely. They are limited to the time between 1970 and now: a day in the far future would
    make the running statistics forget everything before it.
    """
    now_ms = int(time.time() * 1000)
    return [
        Record(
            message.topic,
            message.partition,
            message.offset,
            message.key,
            message.value,
            tuple((key, value or b"") for key, value in message.headers),
            max(0, min(message.timestamp, now_ms)),
        )
        for message in messages
    ]
