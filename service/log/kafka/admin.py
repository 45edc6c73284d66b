"""Creates and describes topics, and answers questions about groups, transactions and offsets."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove
from kafka.errors import InvalidReplicationFactorError, NoError, TopicAlreadyExistsError, UnknownMemberIdError

from service.errors import StreamError
from service.log.kafka.client_errors import CLIENT_ERRORS, describe_failure
from service.log.kafka.clients import create_admin_client, create_consumer, parse_client_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafka import KafkaAdminClient

    from service.log.topics import Topics, TopicSpec
    from service.settings.kafka import KafkaSettings

MIB = 1024 * 1024
# Kafka never compacts the active segment, and a restore reads all of it.
COMPACTED_TOPIC_CONFIG = {
    "segment.bytes": str(32 * MIB),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(24 * 60 * 60 * 1000),
}


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic as the brokers describe it, and what is wrong with it."""

    name: str
    partitions: int
    replication: int
    in_sync: int  # of the partition with the fewest
    configs: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def exists(self) -> bool:
        return self.partitions > 0


@contextmanager
def _admin(settings: KafkaSettings, **overrides: object) -> Iterator[KafkaAdminClient]:
    """Yields an admin client. Its errors become `StreamError` and name the brokers."""
    try:
        with create_admin_client(settings, **overrides) as client:
            yield client
    except CLIENT_ERRORS as error:
        raise StreamError(describe_failure(settings.bootstrap_servers, error)) from error


def create_topics(
    settings: KafkaSettings,
    topics: Topics,
    *,
    partitions: int,
    replication: int,
    min_isr: int,
    audit_ms: int | None = None,
) -> list[str]:
    """Creates the missing topics and returns what was created. It does not change existing topics.

    The state topic is the exception: it gets a partition for every partition that was added to the input.
    """
    with _admin(settings) as client:
        reports = {report.name: report for report in _build_reports(client, topics)}
        source_partitions = reports[topics.sentences].partitions or partitions
        created = []
        for spec in topics.list_specs():
            if not reports[spec.name].exists:
                count = spec.partitions or (source_partitions if spec.per_source_partition else partitions)
                retention_ms = audit_ms if spec.name == topics.audit else None
                if _create_topic(
                    client,
                    spec,
                    partitions=count,
                    replication=replication,
                    min_isr=min_isr,
                    retention_ms=retention_ms,
                ):
                    created.append(spec.name)
            elif spec.per_source_partition and reports[spec.name].partitions < source_partitions:
                client.create_partitions({spec.name: source_partitions})
                created.append(f"{spec.name} (grown to {source_partitions} partitions)")
        client.wait_for_topics([spec.name for spec in topics.list_specs()], timeout_ms=settings.request_timeout_ms)
        return created


def _create_topic(
    client: KafkaAdminClient,
    spec: TopicSpec,
    *,
    partitions: int,
    replication: int,
    min_isr: int,
    retention_ms: int | None = None,
) -> bool:
    configs = {
        "cleanup.policy": spec.cleanup_policy,
        "max.message.bytes": str(spec.max_message_bytes),
        "min.insync.replicas": str(min(min_isr, replication)),
        **(COMPACTED_TOPIC_CONFIG if spec.cleanup_policy == "compact" else {}),
        **({} if retention_ms is None else {"retention.ms": str(retention_ms)}),
    }
    topic = {"num_partitions": partitions, "replication_factor": replication, "configs": configs}
    try:
        client.create_topics({spec.name: topic})
    except TopicAlreadyExistsError:  # another process has just created it
        return False
    except InvalidReplicationFactorError as error:
        brokers = len(client.describe_cluster()["brokers"])
        raise StreamError(
            f"{spec.name} can't have {replication} replicas on {brokers} broker(s): start more brokers, or use fewer replicas"
        ) from error
    return True


def describe_topics(settings: KafkaSettings, topics: Topics) -> list[TopicReport]:
    with _admin(settings) as client:
        return _build_reports(client, topics)


def _build_reports(client: KafkaAdminClient, topics: Topics) -> list[TopicReport]:
    specs = topics.list_specs()
    partitions = {
        topic["name"]: topic["partitions"]
        for topic in client.describe_topics([spec.name for spec in specs])
        if not topic["error_code"]
    }
    configs: Mapping[str, Mapping[str, Mapping[str, str]]] = {}
    if partitions:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in partitions]
        configs = client.describe_configs(resources, config_filter="all")["topic"]
    source_partitions = len(partitions[topics.sentences]) if topics.sentences in partitions else None
    return [
        _build_report(
            spec,
            partitions.get(spec.name, []),
            {name: config["value"] for name, config in configs.get(spec.name, {}).items()},
            source_partitions,
        )
        for spec in specs
    ]


def _build_report(
    spec: TopicSpec,
    partitions: Sequence[Mapping[str, Sequence[int]]],
    configs: Mapping[str, str],
    source_partitions: int | None,
) -> TopicReport:
    if not partitions:
        return TopicReport(spec.name, 0, 0, 0, {}, ("it does not exist: run `labelwatch topics create`",))
    replication = min(len(partition["replica_nodes"]) for partition in partitions)
    in_sync = min(len(partition["isr_nodes"]) for partition in partitions)
    shown = {name: configs.get(name, "") for name in ("cleanup.policy", "max.message.bytes", "min.insync.replicas")}
    min_isr = int(shown["min.insync.replicas"] or 1)
    problems = []
    if spec.cleanup_policy not in shown["cleanup.policy"].split(","):
        problems.append(f"its cleanup.policy is {shown['cleanup.policy']} and must be {spec.cleanup_policy}")
    elif spec.cleanup_policy == "compact" and "delete" in shown["cleanup.policy"]:
        problems.append("its cleanup.policy deletes records that must remain: set it to compact")
    if int(shown["max.message.bytes"] or 0) < spec.max_message_bytes:
        problems.append(f"its max.message.bytes is {shown['max.message.bytes']}: raise it to {spec.max_message_bytes}")
    if spec.per_source_partition and source_partitions is not None and len(partitions) < source_partitions:
        problems.append(
            f"it has {len(partitions)} partitions and the input {source_partitions}: run `labelwatch topics create`"
        )
    if in_sync < min_isr:
        problems.append(f"a partition has {in_sync} in-sync replicas and needs {min_isr}: a broker is down")
    return TopicReport(spec.name, len(partitions), replication, in_sync, shown, tuple(problems))


def count_brokers(settings: KafkaSettings) -> int:
    with _admin(settings) as client:
        return len(client.describe_cluster()["brokers"])


def find_member_id(settings: KafkaSettings, *, group: str, worker_id: str) -> str | None:
    """Returns the id of the member that has the worker id (group.instance.id) at this moment."""
    members = _describe_members(settings, group)
    return next((str(member["member_id"]) for member in members if member["group_instance_id"] == worker_id), None)


def list_group_identities(settings: KafkaSettings, *, group: str) -> set[str | None]:
    """Returns the identities of the members, as `build_client_id` names them; None for one that has no name."""
    return {
        member["group_instance_id"] or parse_client_id(str(member["client_id"]))
        for member in _describe_members(settings, group)
    }


def _describe_members(settings: KafkaSettings, group: str) -> Sequence[Mapping[str, str | None]]:
    with _admin(settings, request_timeout_ms=settings.attempt_timeout_ms) as client:
        members: Sequence[Mapping[str, str | None]] = client.describe_groups([group])[group]["members"]
    return members


def remove_group_member(settings: KafkaSettings, *, group: str, worker_id: str) -> bool:
    """Removes a worker with an id from its group. Returns False if it was not a member."""
    with _admin(settings) as client:
        results = client.remove_group_members(group, [MemberToRemove(group_instance_id=worker_id)])
    for error_class in results.values():
        if error_class is UnknownMemberIdError:
            return False
        if error_class is not NoError:
            raise StreamError(f"{worker_id} could not be removed from the group {group}: {error_class.__name__}")
    return True


def list_open_transactions(settings: KafkaSettings, topic: str, partition: int) -> list[str]:
    """Describes the producers that have an open transaction on a partition."""
    return [
        f"{name or 'an unknown id'} (producer {producer_id})"
        for producer_id, name in find_open_transactions(settings, topic, partition).items()
    ]


def find_open_transactions(settings: KafkaSettings, topic: str, partition: int) -> dict[int, str | None]:
    """Returns the producers that have an open transaction on a partition, with their transactional ids."""
    topic_partition = TopicPartition(topic, partition)
    with _admin(settings, request_timeout_ms=settings.attempt_timeout_ms) as client:
        producers = client.describe_producers([topic_partition])[topic_partition].active_producers
        open_ids = [producer.producer_id for producer in producers if producer.current_transaction_start_offset >= 0]
        if not open_ids:
            return {}
        listed = client.list_transactions(producer_id_filters=open_ids)
    names = {row.producer_id: row.transactional_id for rows in listed.values() for row in rows}
    return {producer_id: names.get(producer_id) for producer_id in open_ids}


def fetch_offset_ranges(settings: KafkaSettings, topic: str) -> dict[int, tuple[int, int]]:
    """Returns the first and the next offset by partition; nothing if the topic does not exist."""
    try:
        with closing(create_consumer(settings)) as consumer:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    except CLIENT_ERRORS as error:
        raise StreamError(describe_failure(settings.bootstrap_servers, error)) from error
    return {partition.partition: (starts[partition], ends[partition]) for partition in partitions}
