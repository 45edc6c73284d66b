"""Settings of the Kafka client. Combinations that can't work are refused before anything connects."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from service.settings.base import SettingsGroup

SERVER_PATTERN = re.compile(r"^(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})$")
# For each compression: the modules of which the client needs one, and the package to install.
COMPRESSION_MODULES = {
    "snappy": (("snappy",), "kafka-python[snappy]"),
    "lz4": (("lz4", "lz4f", "lz4framed"), "kafka-python[lz4]"),
    "zstd": (("zstandard",), "kafka-python[zstd]"),
}
SASL_MODULES = {"GSSAPI": ("gssapi", "gssapi"), "AWS_MSK_IAM": ("botocore", "botocore")}
MIN_ATTEMPT_TIMEOUT_MS = 3_000
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class KafkaSettings(SettingsGroup):
    """The default timeouts hold while brokers are killed or hang, tested with three brokers and replication 3."""

    bootstrap_servers: str = Field(description="Comma separated host:port of the brokers; name all of them")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Protocol of the connections to the brokers"
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "AWS_MSK_IAM"] | None = Field(
        default=None, description="SASL mechanism, for a SASL_ protocol"
    )
    sasl_username: str | None = Field(default=None, description="For PLAIN and SCRAM")
    sasl_password: SecretStr | None = Field(default=None, description="For PLAIN and SCRAM")
    ssl_cafile: Path | None = Field(default=None, description="Certificate authorities, PEM; none: those of the system")
    ssl_certfile: Path | None = Field(default=None, description="Client certificate, PEM")
    ssl_keyfile: Path | None = Field(default=None, description="Key of the client certificate, PEM")
    ssl_password: SecretStr | None = Field(default=None, description="Password of an encrypted key")
    ssl_check_hostname: bool = Field(default=True, description="Whether a broker's certificate must name its host")
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="none", description="Compression of written messages"
    )
    session_timeout_ms: int = Field(
        default=10_000,
        ge=1_000,
        le=1_800_000,
        description="Milliseconds without a heartbeat after which the group removes a worker",
    )
    heartbeat_interval_ms: int = Field(default=1_000, ge=100, description="Milliseconds between heartbeats")
    max_poll_interval_ms: int = Field(default=60_000, ge=2_000, description="Maximum milliseconds for one batch")
    transaction_timeout_ms: int = Field(
        default=13_000,
        ge=1_000,
        le=900_000,
        description="Milliseconds after which brokers abort an open transaction; above their fail-over time."
        " A worker gives up after 35 s in any case",
    )
    delivery_timeout_ms: int = Field(
        default=11_000,
        ge=500,
        description="Milliseconds after which a message of a commit has failed; above the fail-over time of the brokers",
    )
    request_timeout_ms: int = Field(
        default=15_000, ge=1_000, description="Milliseconds to wait for the answer of a broker"
    )

    @property
    def servers(self) -> list[str]:
        return self.bootstrap_servers.split(",")

    @property
    def attempt_timeout_ms(self) -> int:
        """The time-out of a request that is sent again after it: one to a broker that hangs, and one to its successor."""
        return min(self.request_timeout_ms, max(MIN_ATTEMPT_TIMEOUT_MS, self.delivery_timeout_ms // 3))

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @classmethod
    def for_servers(cls, *servers: str) -> Self:
        return cls(bootstrap_servers=",".join(servers))

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_servers(cls, value: str) -> str:
        servers = [part.strip() for part in value.split(",") if part.strip()]
        if not servers:
            raise ValueError("no broker is named: give host:port, several separated by commas")
        for server in servers:
            match = SERVER_PATTERN.match(server)
            if match is None or not 0 < int(match[1]) < 65_536:
                raise ValueError(f"{server!r} is not host:port")
        return ",".join(servers)

    @field_validator("sasl_mechanism")
    @classmethod
    def _check_sasl_mechanism(cls, value: str | None, info: ValidationInfo) -> str | None:
        protocol = str(info.data.get("security_protocol"))
        if protocol.startswith("SASL_") and value is None:
            raise ValueError(f"security_protocol {protocol} needs one: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
        if value is not None and not protocol.startswith("SASL_"):
            raise ValueError(f"it is used only with a SASL_ protocol, and security_protocol is {protocol}")
        module, package = SASL_MODULES.get(value or "", (None, ""))
        if module is not None and find_spec(module) is None:
            raise ValueError(f"{value} needs the package {package}, which is not installed")
        return value

    @field_validator("sasl_username", "sasl_password")
    @classmethod
    def _check_credentials(cls, value: object, info: ValidationInfo) -> object:
        mechanism = info.data.get("sasl_mechanism")
        if mechanism in PASSWORD_MECHANISMS and not value:
            raise ValueError(f"sasl_mechanism {mechanism} needs a username and a password")
        if mechanism not in PASSWORD_MECHANISMS and value is not None:
            raise ValueError(f"it is used only with the mechanisms {', '.join(PASSWORD_MECHANISMS)}")
        return value

    @field_validator("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password")
    @classmethod
    def _check_ssl_option(cls, value: object, info: ValidationInfo) -> object:
        if value is None:
            return value
        protocol = str(info.data.get("security_protocol"))
        if not protocol.endswith("SSL"):
            raise ValueError(f"it is used only with SSL or SASL_SSL, and security_protocol is {protocol}")
        if isinstance(value, Path) and not value.is_file():
            raise ValueError(f"{value} is not a file")
        if info.field_name in ("ssl_keyfile", "ssl_password") and info.data.get("ssl_certfile") is None:
            raise ValueError("it belongs to a client certificate: set ssl_certfile as well")
        return value

    @field_validator("compression_type")
    @classmethod
    def _check_compression(cls, value: str) -> str:
        modules, package = COMPRESSION_MODULES.get(value, ((), ""))
        if modules and not any(find_spec(module) for module in modules):
            raise ValueError(f"{value} needs a library that is not installed: pip install '{package}'")
        return value

    @field_validator("heartbeat_interval_ms")
    @classmethod
    def _check_heartbeat_interval(cls, value: int, info: ValidationInfo) -> int:
        session = info.data.get("session_timeout_ms")
        if session is not None and value * 3 > session:
            raise ValueError(
                f"at most a third of session_timeout_ms ({session}), so that one lost heartbeat does no harm"
            )
        return value

    @field_validator("transaction_timeout_ms")
    @classmethod
    def _check_transaction_timeout(cls, value: int, info: ValidationInfo) -> int:
        interval = info.data.get("max_poll_interval_ms")
        if interval is not None and value * 2 > interval:
            raise ValueError(
                f"at most half of max_poll_interval_ms ({interval}): a worker waits that long for another's open transaction"
            )
        return value

    @field_validator("delivery_timeout_ms")
    @classmethod
    def _check_delivery_timeout(cls, value: int, info: ValidationInfo) -> int:
        transaction = info.data.get("transaction_timeout_ms")
        if transaction is not None and value >= transaction:
            raise ValueError(f"must be below transaction_timeout_ms ({transaction}), else a commit may lose a message")
        return value
