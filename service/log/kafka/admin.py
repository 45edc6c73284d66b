"""Topics made and looked at, and what an administrator must be able to ask: who has an identity, who blocks a partition."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove
from kafka.errors import InvalidReplicationFactorError, NoError, TopicAlreadyExistsError, UnknownMemberIdError

from service.errors import StreamError
from service.log.kafka.clients import CLIENT_ERRORS, create_admin_client
from service.log.kafka.library_fixes.patches import describe_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafka import KafkaAdminClient

    from service.log.topics import Topics, TopicSpec
    from service.settings.kafka import KafkaSettings

MIB = 1024 * 1024
# A segment that is still written to is never compacted, and a restore reads all of it: keep it small.
COMPACTED_TOPIC_CONFIG = {
    "segment.bytes": str(32 * MIB),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(24 * 60 * 60 * 1000),
}


@dataclass(frozen=True, slots=True)
class TopicReport:
    """A topic as the brokers have it, and what is wrong with it."""

    name: str
    partitions: int
    replication: int
    in_sync: int  # copies of the partition that has fewest
    configs: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def exists(self) -> bool:
        return self.partitions > 0


@contextmanager
def _admin(settings: KafkaSettings) -> Iterator[KafkaAdminClient]:
    """The library's errors become ours, with the brokers named."""
    try:
        with create_admin_client(settings) as client:
            yield client
    except CLIENT_ERRORS as error:
        raise StreamError(f"Kafka at {settings.bootstrap_servers}: {describe_error(error)}") from error


def create_topics(
    settings: KafkaSettings, topics: Topics, *, partitions: int, replication: int, min_isr: int
) -> list[str]:
    """Makes what is missing and tells what was made; what is there stays as it is.

    Only the state topic grows: it needs a partition for each one that the input has.
    """
    with _admin(settings) as client:
        there = {report.name: report for report in _build_reports(client, topics)}
        source = there[topics.sentences].partitions or partitions
        made = []
        for spec in topics.list_specs():
            if not there[spec.name].exists:
                wanted = spec.partitions or (source if spec.per_source_partition else partitions)
                if _create_topic(client, spec, partitions=wanted, replication=replication, min_isr=min_isr):
                    made.append(spec.name)
            elif spec.per_source_partition and there[spec.name].partitions < source:
                client.create_partitions({spec.name: source})
                made.append(f"{spec.name} (grown to {source} partitions)")
        client.wait_for_topics([spec.name for spec in topics.list_specs()], timeout_ms=settings.request_timeout_ms)
        return made


def _create_topic(
    client: KafkaAdminClient, spec: TopicSpec, *, partitions: int, replication: int, min_isr: int
) -> bool:
    configs = {
        "cleanup.policy": spec.cleanup_policy,
        "max.message.bytes": str(spec.max_message_bytes),
        "min.insync.replicas": str(min(min_isr, replication)),
        **(COMPACTED_TOPIC_CONFIG if spec.cleanup_policy == "compact" else {}),
    }
    wanted = {"num_partitions": partitions, "replication_factor": replication, "configs": configs}
    try:
        client.create_topics({spec.name: wanted})
    except TopicAlreadyExistsError:  # somebody else made it at this moment
        return False
    except InvalidReplicationFactorError as error:
        brokers = len(client.describe_cluster()["brokers"])
        raise StreamError(
            f"{spec.name} can't have {replication} copies on {brokers} broker(s): start more, or ask for fewer copies"
        ) from error
    return True


def describe_topics(settings: KafkaSettings, topics: Topics) -> list[TopicReport]:
    with _admin(settings) as client:
        return _build_reports(client, topics)


def _build_reports(client: KafkaAdminClient, topics: Topics) -> list[TopicReport]:
    specs = topics.list_specs()
    found = {
        topic["name"]: topic
        for topic in client.describe_topics([spec.name for spec in specs])
        if not topic["error_code"]
    }
    configs: Mapping[str, Mapping[str, Mapping[str, str]]] = {}
    if found:
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in found]
        configs = client.describe_configs(asked, config_filter="all")["topic"]
    source = len(found[topics.sentences]["partitions"]) if topics.sentences in found else None
    return [
        _build_report(
            spec,
            found[spec.name]["partitions"] if spec.name in found else [],
            {name: config["value"] for name, config in configs.get(spec.name, {}).items()},
            source,
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
    kept = {name: configs.get(name, "") for name in ("cleanup.policy", "max.message.bytes", "min.insync.replicas")}
    enough = int(kept["min.insync.replicas"] or 1)
    problems = []
    if spec.cleanup_policy not in kept["cleanup.policy"].split(","):
        problems.append(f"its cleanup.policy is {kept['cleanup.policy']} and must be {spec.cleanup_policy}")
    elif spec.cleanup_policy == "compact" and "delete" in kept["cleanup.policy"]:
        problems.append("its cleanup.policy deletes what must be kept: set it to compact")
    if int(kept["max.message.bytes"] or 0) < spec.max_message_bytes:
        problems.append(f"its max.message.bytes is {kept['max.message.bytes']}: raise it to {spec.max_message_bytes}")
    if spec.per_source_partition and source_partitions is not None and len(partitions) < source_partitions:
        problems.append(
            f"it has {len(partitions)} partitions and the input {source_partitions}: run `labelwatch topics create`"
        )
    if in_sync < enough:
        problems.append(f"a partition has {in_sync} copies in sync and {enough} are needed: a broker is missing")
    return TopicReport(spec.name, len(partitions), replication, in_sync, kept, tuple(problems))


def count_brokers(settings: KafkaSettings) -> int:
    with _admin(settings) as client:
        return len(client.describe_cluster()["brokers"])


def find_member_id(settings: KafkaSettings, *, group: str, worker_id: str) -> str | None:
    """Who has the fixed identity at this moment, as the group knows it."""
    with _admin(settings) as client:
        members = client.describe_groups([group])[group]["members"]
    return next((str(one["member_id"]) for one in members if one["group_instance_id"] == worker_id), None)


def remove_group_member(settings: KafkaSettings, *, group: str, worker_id: str) -> bool:
    """Takes a worker with a fixed identity out of its group at once; false where it was not in it."""
    with _admin(settings) as client:
        answers = client.remove_group_members(group, [MemberToRemove(group_instance_id=worker_id)])
    for answer in answers.values():
        if answer is UnknownMemberIdError:
            return False
        if answer is not NoError:
            raise StreamError(f"the group {group} would not let {worker_id} go: {answer.__name__}")
    return True


def list_open_transactions(settings: KafkaSettings, topic: str, partition: int) -> list[str]:
    """Who has written to a partition and neither committed nor aborted it yet."""
    place = TopicPartition(topic, partition)
    with _admin(settings) as client:
        producers = client.describe_producers([place])[place].active_producers
        holding = [one.producer_id for one in producers if one.current_transaction_start_offset >= 0]
        if not holding:
            return []
        listed = client.list_transactions(producer_id_filters=holding)
    names = {row.producer_id: row.transactional_id for rows in listed.values() for row in rows}
    return [f"{names.get(identity, 'without a known id')} (producer {identity})" for identity in holding]
