"""A broker that asks who one is and looks up what he may do, with the rights that a table in docs/ grants."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from tests.kafka.broker import HOST, Cluster, find_free_ports
from tests.support.docs_pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESOURCE_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}
RESOURCE_PATTERN = re.compile(r"(topic|group|transactional id)s?( with the prefix)? ((?:`[^`]+`(?:, )?)+)")
# A broker that was killed may only come back once the controller has given up on its former self.
FAST_SESSION_SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}


class AclGrant(NamedTuple):
    principals: str
    kind: str
    name: str
    prefixed: bool
    operations: tuple[str, ...]


def parse_acl_table(page: str = "operations.md") -> list[AclGrant]:
    """What the table under `## ACLs` says, line by line; who is left out is the one above."""
    (section,) = re.findall(r"^## ACLs\n(.*?)^## ", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    found: list[AclGrant] = []
    who = ""
    for row in [line for line in section.splitlines() if line.startswith("|")][2:]:
        named, resources, operations = (cell.strip() for cell in row.strip("|").split("|"))
        who = named.partition(" (")[0].replace("`", "").replace(", ", ",").replace(" ", "-") or who
        words = tuple(re.findall(r"\b[A-Z][A-Z_]+\b", operations.partition("(")[0]))
        there = RESOURCE_PATTERN.findall(resources)
        assert there, f"the table names nothing that is known: {row}"
        assert words, row
        for kind, prefixed, names in there:
            found += [AclGrant(who, kind, name, bool(prefixed), words) for name in re.findall(r"`([^`]+)`", names)]
    return found


class SecuredCluster(NamedTuple):
    cluster: Cluster
    servers: str  # where one has to log in
    users: tuple[str, ...]

    def make_login_settings(self, user: str) -> dict[str, str]:
        """The settings with which labelwatch is this user."""
        assert user in self.users
        return {
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS": self.servers,
            "LABELWATCH_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "LABELWATCH_KAFKA_SASL_MECHANISM": "PLAIN",
            "LABELWATCH_KAFKA_SASL_USERNAME": user,
            "LABELWATCH_KAFKA_SASL_PASSWORD": f"of-{user}",
        }


@contextmanager
def secured_cluster(folder: Path) -> Iterator[SecuredCluster]:
    """Who comes in by the cluster's own address is nobody, and may do anything: the tests' administrator."""
    granted = parse_acl_table()
    users = tuple(sorted({name for right in granted for name in right.principals.split(",")}))
    (port,) = find_free_ports(1)
    cluster = Cluster(folder, settings=FAST_SESSION_SETTINGS)
    inside, controller = cluster._ports[1], cluster._controllers[1]
    logins = " ".join(f'user_{user}="of-{user}"' for user in users)
    cluster._settings |= {
        "listeners": f"PLAINTEXT://{HOST}:{inside},CONTROLLER://{HOST}:{controller},CLIENTS://{HOST}:{port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{inside},CLIENTS://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {logins};"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with cluster:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_acls([acl for right in granted for acl in _to_acls(right)])
        yield SecuredCluster(cluster, f"{HOST}:{port}", users)


def _to_acls(right: AclGrant) -> list[ACL]:
    pattern = ACLResourcePatternType.PREFIXED if right.prefixed else ACLResourcePatternType.LITERAL
    place = ResourcePattern(RESOURCE_TYPES[right.kind], right.name, pattern)
    return [
        ACL(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, place)
        for user in right.principals.split(",")
        for operation in right.operations
    ]
