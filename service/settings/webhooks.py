"""Settings of outgoing webhooks."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from service.settings.base import SettingsGroup

MIN_KEY_CHARS = 32


class WebhooksSettings(SettingsGroup):
    """Outgoing webhooks. Without a key they are off."""

    key: SecretStr = Field(
        default=SecretStr(""),
        description="Key that the secrets of endpoints are derived from, at least 32 characters, the same in every process "
        "(`openssl rand -base64 32`); none: no webhooks are sent. With another key, every endpoint has another secret",
    )
    allowed_hosts: str = Field(
        default="",
        description="Comma separated hosts that may be at private addresses, and may be called without TLS; all others must be public",
    )
    digest_s: float = Field(
        default=300.0,
        gt=0,
        description="Seconds between two notifications about new items, and two checks of conditions",
    )
    timeout_s: float = Field(default=10.0, gt=0, le=60, description="Seconds that one delivery may take in all")

    @field_validator("key")
    @classmethod
    def _check_key(cls, key: SecretStr) -> SecretStr:
        if 0 < len(key.get_secret_value()) < MIN_KEY_CHARS:
            raise ValueError(f"it is too short: use at least {MIN_KEY_CHARS} random characters")
        return key

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(host.strip().lower() for host in self.allowed_hosts.split(",") if host.strip())
