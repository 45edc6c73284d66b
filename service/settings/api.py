"""Settings of the REST API, its keys and its webhooks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, SecretStr, field_validator

from service.contracts.access.roles import ADDRESS_ROLES, KEY_NAME_PATTERN, ROLES, Role
from service.contracts.base import is_dataset_name
from service.contracts.defaults import BATCH_TOKENS, QUEUE_SENTENCES
from service.settings.base import SettingsGroup
from service.settings.proxy import GroupRole, Network, parse_group_roles, parse_networks


class ApiKey(NamedTuple):
    """A key of the API, known by its hash. One with `datasets` is valid for these only."""

    name: str
    role: Role
    digest: str
    datasets: tuple[str, ...] = ()

    def format_setting(self) -> str:
        """The key's entry in LABELWATCH_API_KEYS."""
        return ":".join(part for part in (self.name, self.role, "+".join(self.datasets), self.digest) if part)


HEADER_PATTERN = r"^[A-Za-z0-9-]{1,64}$"
OLD_ADMIN_SCOPE = "write"  # entries of earlier versions
_API_KEY_PATTERN = re.compile(
    rf"(?P<name>{KEY_NAME_PATTERN}):(?P<role>[a-z-]+)(?::(?P<datasets>[^:]+))?:(?P<digest>[0-9a-fA-F]{{64}})"
)

_HOST_PATTERN = re.compile(r"[^\s/:*]+")
_ORIGIN_PATTERN = re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^\s/]+")


class ApiSettings(SettingsGroup):
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8765, ge=0, le=65535, description="Port to listen on; 0: any free port")
    processes: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes of the API. With more than 1 each further one answers `POST /v1/score` with a model of its own; "
        "the first does that too, and everything else",
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="Another port for /metrics, /healthz and /readyz. A process of its own answers there, whatever the API "
        "does, and without a key; 0: any free port; none: off",
    )
    metrics_host: str = Field(default="127.0.0.1", min_length=1, description="Address that the metrics port listens on")
    keys: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated `name:role:sha256` and `name:role:dataset+dataset:sha256` entries from `labelwatch key new "
        "--print`; the role `write` of earlier versions is read as `admin`",
    )
    proxy_addresses: str = Field(
        default="",
        description="Comma separated addresses and networks of the proxy that logs users in; from anywhere else its headers are "
        "ignored; none: off",
    )
    proxy_user_header: str = Field(
        default="X-Forwarded-User", pattern=HEADER_PATTERN, description="Header with the name of the user"
    )
    proxy_groups_header: str = Field(
        default="X-Forwarded-Groups",
        pattern=HEADER_PATTERN,
        description="Header with the groups of the user, comma separated",
    )
    proxy_groups: str = Field(
        default="",
        description="Comma separated `group=role` and `group=role:dataset+dataset` entries; a user without such a group is refused",
    )
    keyless: Literal["refuse", "allow", "generate"] = Field(
        default="refuse",
        description="What to do if there are no keys. `refuse`: start on an address of this machine only; `allow`: start on any "
        "address, everybody may do everything; `generate`: create the key of an admin and print it once",
    )
    hosts: str = Field(
        default="",
        description="Comma separated names with a dot under which the service is reached while it has no keys; addresses and "
        "names without a dot are always accepted",
    )
    cors_origins: str = Field(
        default="", description="Comma separated origins that browsers may send requests from; none: off"
    )
    max_connections_per_address: int = Field(
        default=1_000,
        ge=1,
        description="Maximum open connections from one address; further ones get 503. Loopback has no limit; behind a proxy "
        "on another machine all clients have its address",
    )
    max_body_bytes: int = Field(default=16_000_000, ge=1_000, description="Maximum bytes of a JSON body")
    max_pending_body_bytes: int = Field(
        default=128_000_000,
        ge=1_000,
        description="Maximum bytes of JSON bodies in memory, over all requests; further ones get 429. The first 64 kB of "
        "each request don't count",
    )
    max_stream_bytes: int = Field(default=1_000_000_000, ge=1_000, description="Maximum bytes of an NDJSON body")
    max_streams: int = Field(
        default=64, ge=1, description="Maximum NDJSON requests at the same time; further ones get 429"
    )
    max_spool_bytes: int = Field(
        default=1_000_000_000,
        ge=1_000,
        description="Maximum bytes in temporary files for NDJSON clients that do not read their answers yet, over all requests",
    )
    idle_s: float = Field(
        default=60.0,
        gt=0,
        description="Maximum seconds in which an NDJSON client neither sends lines nor reads answers",
    )
    max_line_bytes: int = Field(default=4_000_000, ge=1_000, description="Maximum bytes of a line of an NDJSON body")
    max_sentences: int = Field(default=1_000, ge=1, description="Maximum sentences or decisions in a JSON body")
    timeout_s: float = Field(
        default=30.0, gt=0, description="Seconds until a request times out; streamed answers have no limit"
    )
    queue_path: Path | None = Field(
        default=None,
        description="File of the review queue, rebuilt from the topics if it is lost; none: beside the embedded log",
    )
    queue_sentences: int = Field(
        default=QUEUE_SENTENCES,
        ge=1,
        description="Maximum sentences that wait for the model; further requests get 429. "
        "A quarter more is for requests with at most 16 sentences",
    )
    max_delay_ms: float = Field(
        default=0.0,
        ge=0,
        description="Milliseconds that an idle model waits for more sentences to fill a batch",
    )
    batch_tokens: int = Field(default=BATCH_TOKENS, ge=16, description="Maximum padded tokens per batch of the model")
    annotator_min_f1: float = Field(
        default=0.7,
        ge=0,
        le=1,
        description="F1 that a dataset's model needs, on sentences that it was not trained on, for figures of annotators "
        "that compare their labels with it",
    )
    label_studio_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Label Studio, for links back to tasks"
    )
    argilla_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Argilla, for links back to records"
    )
    argilla_secrets: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated secrets of Argilla's webhooks, each for any dataset or, as DATASET:SECRET, for one; none: "
        "the webhooks need a key",
    )

    @field_validator("argilla_secrets")
    @classmethod
    def _check_webhook_secrets(cls, secrets: SecretStr) -> SecretStr:
        for entry in _split_commas(secrets.get_secret_value()):
            dataset, colon, secret = entry.rpartition(":")
            if colon and not is_dataset_name(dataset):
                raise ValueError(f"{dataset[:64]!r} can't be a dataset: give DATASET:SECRET, or the secret alone")
            bare = secret.removeprefix("whsec_").rstrip("=")
            if len(bare) < 2 or len(bare) % 4 == 1 or not re.fullmatch(r"[A-Za-z0-9+/]+", bare):
                raise ValueError(
                    "a webhook secret is base64: copy it from Argilla, which shows it when the webhook is created"
                )
        return secrets

    @field_validator("hosts")
    @classmethod
    def _check_hosts(cls, hosts: str) -> str:
        for host in _split_commas(hosts):
            if not _HOST_PATTERN.fullmatch(host):
                raise ValueError(
                    f"{host!r} is not a name: give it without scheme, port and path, such as labels.example.com"
                )
        return hosts

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, origins: str) -> str:
        for origin in _split_commas(origins):
            if not _ORIGIN_PATTERN.fullmatch(origin.rstrip("/")):
                raise ValueError(
                    f"{origin!r} is not an origin: give scheme and host, such as https://labels.example.com"
                )
        return origins

    @field_validator("proxy_groups")
    @classmethod
    def _check_proxy_groups(cls, groups: str) -> str:
        parse_group_roles(_split_commas(groups))
        return groups

    @field_validator("proxy_addresses")
    @classmethod
    def _check_proxy_addresses(cls, addresses: str) -> str:
        parse_networks(_split_commas(addresses))
        return addresses

    @property
    def group_roles(self) -> dict[str, GroupRole]:
        return parse_group_roles(_split_commas(self.proxy_groups))

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        return parse_networks(_split_commas(self.proxy_addresses))

    @field_validator("keys")
    @classmethod
    def _check_api_keys(cls, keys: SecretStr) -> SecretStr:
        names = [_parse_api_key(part).name for part in _split_commas(keys.get_secret_value())]
        if len(set(names)) < len(names):
            raise ValueError("two keys have the same name: give each its own")
        return keys

    @property
    def known_keys(self) -> tuple[ApiKey, ...]:
        return tuple(_parse_api_key(part) for part in _split_commas(self.keys.get_secret_value()))

    def list_secrets(self, setting: str) -> tuple[str, ...]:
        """The comma separated secrets of the setting with this name."""
        secrets = getattr(self, setting)
        if not isinstance(secrets, SecretStr):
            raise TypeError(f"the setting {setting!r} holds no secrets")
        return tuple(_split_commas(secrets.get_secret_value()))

    @property
    def known_hosts(self) -> tuple[str, ...]:
        return tuple(host.lower() for host in _split_commas(self.hosts))

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(origin.rstrip("/") for origin in _split_commas(self.cors_origins))


_KEY_RULE = (
    f"give name:role:sha256 or name:role:dataset+dataset:sha256 with one of the roles {', '.join(ROLES)}; {' and '.join(ADDRESS_ROLES)} "
    "need one dataset. `labelwatch key new --name NAME --role ROLE --print` prints an entry"
)


def _split_commas(text: str) -> list[str]:
    return [stripped for part in text.split(",") if (stripped := part.strip())]


def _parse_api_key(text: str) -> ApiKey:
    match = _API_KEY_PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(_KEY_RULE)
    role = "admin" if match["role"] == OLD_ADMIN_SCOPE else match["role"]
    datasets = tuple(match["datasets"].split("+")) if match["datasets"] else ()
    if role not in ROLES or not all(map(is_dataset_name, datasets)) or (role in ADDRESS_ROLES and len(datasets) != 1):
        raise ValueError(_KEY_RULE)
    return ApiKey(match["name"], role, match["digest"].lower(), datasets)
