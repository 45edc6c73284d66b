"""Settings of the REST API, its keys and its webhooks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field, SecretStr, field_validator

from service.contracts.defaults import BATCH_TOKENS
from service.settings.base import SettingsGroup

KeyScope = Literal["read", "write"]


class ApiKey(NamedTuple):
    """A key that may call the API, by its hash."""

    name: str
    scope: KeyScope
    digest: str


_API_KEY_PATTERN = re.compile(r"(?P<name>[a-zA-Z0-9._-]{1,64}):(?P<scope>read|write):(?P<digest>[0-9a-fA-F]{64})")


class ApiSettings(SettingsGroup):
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on")
    port: int = Field(default=8765, ge=0, le=65535, description="Port to listen on; 0: any that is free")
    keys: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated `name:scope:sha256` as `labelwatch key new` prints them; none: open to everybody",
    )
    cors_origins: str = Field(default="", description="Comma separated origins that browsers may call from; none: off")
    max_body_bytes: int = Field(default=16_000_000, ge=1_000, description="Largest JSON body of a request")
    max_stream_bytes: int = Field(default=1_000_000_000, ge=1_000, description="Largest NDJSON body of a request")
    max_streams: int = Field(default=64, ge=1, description="NDJSON bodies that are read at once, at most; more get 429")
    max_spool_bytes: int = Field(
        default=1_000_000_000,
        ge=1_000,
        description="Temporary files for clients that send NDJSON and read no answers yet, all together",
    )
    idle_s: float = Field(
        default=60.0, gt=0, description="Longest time that a client may neither send lines nor read answers"
    )
    max_line_bytes: int = Field(default=4_000_000, ge=1_000, description="Longest line of an NDJSON body")
    max_sentences: int = Field(default=1_000, ge=1, description="Most sentences or decisions of a JSON body")
    timeout_s: float = Field(default=30.0, gt=0, description="Longest time for an answer; streamed ones go on")
    queue_path: Path | None = Field(
        default=None, description="File of the review queue, which may be lost; none: beside the embedded log"
    )
    queue_sentences: int = Field(default=2_048, ge=1, description="Sentences that wait for the model, at most")
    max_delay_ms: float = Field(
        default=0.0,
        ge=0,
        description="Time an idle model waits for others to share a batch with; a busy one needs none",
    )
    batch_tokens: int = Field(default=BATCH_TOKENS, ge=16, description="Padded tokens of one batch, at most")
    label_studio_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Label Studio, for links back to tasks"
    )
    argilla_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]+\S*$", description="Address of Argilla, for links back to records"
    )
    argilla_secrets: SecretStr = Field(
        default=SecretStr(""),
        description="Comma separated secrets of Argilla's webhooks; none: they need a key instead",
    )

    @field_validator("argilla_secrets")
    @classmethod
    def _check_webhook_secrets(cls, secrets: SecretStr) -> SecretStr:
        for one in _split_commas(secrets.get_secret_value()):
            bare = one.removeprefix("whsec_").rstrip("=")
            if len(bare) < 2 or len(bare) % 4 == 1 or not re.fullmatch(r"[A-Za-z0-9+/]+", bare):
                raise ValueError("a webhook's secret is base64, as Argilla shows it when the webhook is made")
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
    def origins(self) -> tuple[str, ...]:
        return tuple(origin.rstrip("/") for origin in _split_commas(self.cors_origins))


def _split_commas(text: str) -> list[str]:
    return [part for each in text.split(",") if (part := each.strip())]


def _parse_api_key(text: str) -> ApiKey:
    found = _API_KEY_PATTERN.fullmatch(text)
    if found is None:
        raise ValueError("give name:scope:sha256 with the scope read or write, as `labelwatch key new` prints it")
    scope: KeyScope = "write" if found["scope"] == "write" else "read"
    return ApiKey(found["name"], scope, found["digest"].lower())
