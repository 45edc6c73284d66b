"""Settings of the REST API, its keys and its webhooks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, SecretStr, field_validator

from service.contracts.base import is_dataset_name
from service.contracts.defaults import BATCH_TOKENS, QUEUE_SENTENCES
from service.settings.base import SettingsGroup

KeyScope = Literal["read", "write", "label-studio"]


class ApiKey(NamedTuple):
    """A key of the API, known by its hash. One with the scope `label-studio` is valid for its `dataset` only."""

    name: str
    scope: KeyScope
    digest: str
    dataset: str | None = None

    def format_setting(self) -> str:
        """The key's entry in LABELWATCH_API_KEYS."""
        return ":".join(part for part in (self.name, self.scope, self.dataset, self.digest) if part is not None)


_API_KEY_PATTERN = re.compile(
    r"(?P<name>[a-zA-Z0-9._-]{1,64}):(?:(?P<scope>read|write)|(?P<platform>label-studio):(?P<dataset>[^:]+))"
    r":(?P<digest>[0-9a-fA-F]{64})"
)


class ApiSettings(SettingsGroup):
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8765, ge=0, le=65535, description="Port to listen on; 0: any free port")
    keys: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated `name:scope:sha256` and `name:label-studio:dataset:sha256` entries from `labelwatch key new`; none: no key is needed",
    )
    hosts: str = Field(
        default="",
        description="Comma separated names with a dot under which the service is reached while it has no keys; addresses and "
        "names without a dot are always accepted",
    )
    cors_origins: str = Field(
        default="", description="Comma separated origins that browsers may send requests from; none: off"
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
        default=QUEUE_SENTENCES, ge=1, description="Maximum sentences that wait for the model; further requests get 429"
    )
    max_delay_ms: float = Field(
        default=0.0,
        ge=0,
        description="Milliseconds that an idle model waits for more sentences to fill a batch",
    )
    batch_tokens: int = Field(default=BATCH_TOKENS, ge=16, description="Maximum padded tokens per batch of the model")
    label_studio_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Label Studio, for links back to tasks"
    )
    argilla_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Argilla, for links back to records"
    )
    argilla_secrets: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated secrets of Argilla's webhooks; none: the webhooks need a key",
    )

    @field_validator("argilla_secrets")
    @classmethod
    def _check_webhook_secrets(cls, secrets: SecretStr) -> SecretStr:
        for secret in _split_commas(secrets.get_secret_value()):
            bare = secret.removeprefix("whsec_").rstrip("=")
            if len(bare) < 2 or len(bare) % 4 == 1 or not re.fullmatch(r"[A-Za-z0-9+/]+", bare):
                raise ValueError(
                    "a webhook secret is base64: copy it from Argilla, which shows it when the webhook is created"
                )
        return secrets

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


def _split_commas(text: str) -> list[str]:
    return [stripped for part in text.split(",") if (stripped := part.strip())]


def _parse_api_key(text: str) -> ApiKey:
    match = _API_KEY_PATTERN.fullmatch(text)
    if match is None or not is_dataset_name(match["dataset"] or "default"):
        raise ValueError(
            "give name:scope:sha256 with the scope read or write, or name:label-studio:dataset:sha256, as `labelwatch "
            "key new` prints it"
        )
    digest = match["digest"].lower()
    if match["dataset"] is not None:
        return ApiKey(match["name"], "label-studio", digest, match["dataset"])
    scope: KeyScope = "write" if match["scope"] == "write" else "read"
    return ApiKey(match["name"], scope, digest)
