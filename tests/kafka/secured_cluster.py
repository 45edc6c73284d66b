"""A broker with authentication, and with the ACLs of the table in docs/."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ACLResourcePatternType, ResourcePattern, ResourceType

from tests.kafka.broker import HOST, Cluster
from tests.support.docs_pages import DOCS
from tests.support.ports import find_free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESOURCE_TYPES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
}
RESOURCE_PATTERN = re.compile(r"(topic|group|transactional id)s?( with the prefix)? ((?:`[^`]+`(?:, )?)+)")
# A killed broker may register again only after the session of its former process has expired.
FAST_SESSION_SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}


class AclGrant(NamedTuple):
    principals: str
    kind: str
    name: str
    prefixed: bool
    operations: tuple[str, ...]


def parse_acl_table(page: str = "operations.md") -> list[AclGrant]:
    """Reads the table under `## ACLs`. A row without a principal continues the one above."""
    (section,) = re.findall(r"^## ACLs\n(.*?)^## ", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    grants: list[AclGrant] = []
    principals = ""
    for row in [line for line in section.splitlines() if line.startswith("|")][2:]:
        users, resources, operations = (cell.strip() for cell in row.strip("|").split("|"))
        principals = users.partition(" (")[0].replace("`", "").replace(", ", ",").replace(" ", "-") or principals
        names_of_operations = tuple(re.findall(r"\b[A-Z][A-Z_]+\b", operations.partition("(")[0]))
        patterns = RESOURCE_PATTERN.findall(resources)
        assert patterns, f"this row of the table names no resource: {row}"
        assert names_of_operations, row
        for kind, prefixed, names in patterns:
            grants += [
                AclGrant(principals, kind, name, bool(prefixed), names_of_operations)
                for name in re.findall(r"`([^`]+)`", names)
            ]
    return grants


class SecuredCluster(NamedTuple):
    cluster: Cluster
    servers: str  # of the listener with authentication
    users: tuple[str, ...]

    def make_login_settings(self, user: str) -> dict[str, str]:
        """The environment with which labelwatch logs in as this user."""
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
    """Starts the broker. On its plain listener every client is anonymous and may do anything: the tests use it as admin."""
    grants = parse_acl_table()
    users = tuple(sorted({name for grant in grants for name in grant.principals.split(",")}))
    port = find_free_port()
    cluster = Cluster(folder, settings=FAST_SESSION_SETTINGS)
    internal, controller = cluster._ports[1], cluster._controllers[1]
    logins = " ".join(f'user_{user}="of-{user}"' for user in users)
    cluster._settings |= {
        "listeners": f"PLAINTEXT://{HOST}:{internal},CONTROLLER://{HOST}:{controller},CLIENTS://{HOST}:{port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{internal},CLIENTS://{HOST}:{port}",
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
            admin.create_acls([acl for grant in grants for acl in _to_acls(grant)])
        yield SecuredCluster(cluster, f"{HOST}:{port}", users)


def _to_acls(grant: AclGrant) -> list[ACL]:
    pattern = ACLResourcePatternType.PREFIXED if grant.prefixed else ACLResourcePatternType.LITERAL
    resource = ResourcePattern(RESOURCE_TYPES[grant.kind], grant.name, pattern)
    return [
        ACL(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, resource)
        for user in grant.principals.split(",")
        for operation in grant.operations
    ]
