from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr, ValidationError

from service.log.kafka.clients import build_client_config
from service.settings import kafka as kafka_settings
from service.settings.kafka import KafkaSettings

if TYPE_CHECKING:
    from pathlib import Path

SASL = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "u", "sasl_password": "p"}


def build_settings(**fields: object) -> KafkaSettings:
    return KafkaSettings.model_validate({"bootstrap_servers": "a:9092"} | fields)


@pytest.mark.parametrize(
    ("fields", "name", "message"),
    [
        ({"bootstrap_servers": ""}, "bootstrap_servers", "no broker is named"),
        ({"bootstrap_servers": "a:9092,b"}, "bootstrap_servers", "'b' is not host:port"),
        ({"bootstrap_servers": "a:70000"}, "bootstrap_servers", "'a:70000' is not host:port"),
        ({"bootstrap_servers": "http://a:1"}, "bootstrap_servers", "is not host:port"),
        ({"security_protocol": "TLS"}, "security_protocol", "'PLAINTEXT', 'SSL'"),
        ({"security_protocol": "SASL_SSL"}, "sasl_mechanism", "security_protocol SASL_SSL needs one"),
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism", "only with a SASL_ protocol"),
        (SASL | {"sasl_username": None}, "sasl_username", "SCRAM-SHA-512 needs a username"),
        (SASL | {"sasl_password": None}, "sasl_password", "needs a username and a password"),
        ({"sasl_username": "u"}, "sasl_username", "only with the mechanisms PLAIN"),
        ({"ssl_cafile": "ca.pem"}, "ssl_cafile", "only with SSL or SASL_SSL"),
        ({"security_protocol": "SSL", "ssl_cafile": "no/ca.pem"}, "ssl_cafile", "no/ca.pem is not a file"),
        ({"security_protocol": "SSL", "ssl_password": "p"}, "ssl_password", "set ssl_certfile as well"),
        ({"compression_type": "brotli"}, "compression_type", "'none', 'gzip'"),
        ({"heartbeat_interval_ms": 4_000}, "heartbeat_interval_ms", "a third of session_timeout_ms"),
        ({"transaction_timeout_ms": 31_000}, "transaction_timeout_ms", "half of max_poll_interval_ms (60000)"),
        ({"delivery_timeout_ms": 15_000}, "delivery_timeout_ms", "below transaction_timeout_ms (13000)"),
        ({"sessions": 1}, "sessions", "not permitted"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(fields: dict[str, object], name: str, message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        build_settings(**fields)
    (first, *_) = refused.value.errors()
    assert first["loc"] == (name,)
    assert message in first["msg"]


def test_a_compression_whose_library_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_settings, "find_spec", lambda _: None)
    assert build_settings(compression_type="gzip").compression_type == "gzip"
    with pytest.raises(ValidationError, match=r"pip install 'kafka-python\[zstd\]'"):
        build_settings(compression_type="zstd")
    with pytest.raises(ValidationError, match="GSSAPI needs the package gssapi"):
        build_settings(security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")


def test_spaces_between_servers_do_not_matter() -> None:
    assert build_settings(bootstrap_servers=" a:1, [::1]:2 ,c.d-e:3,").servers == ["a:1", "[::1]:2", "c.d-e:3"]
    assert KafkaSettings.for_servers("a:1", "b:2").servers == ["a:1", "b:2"]


def test_the_client_gets_the_settings_and_secrets_stay_hidden(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile")}
    for path in files.values():
        path.touch()
    settings = build_settings(**SASL, **files, ssl_password="q", ssl_check_hostname=False, request_timeout_ms=7_000)
    config = build_client_config(settings)
    assert config["security_protocol"] == "SASL_SSL"
    assert (config["sasl_mechanism"], config["sasl_plain_username"], config["sasl_plain_password"]) == (
        "SCRAM-SHA-512",
        "u",
        "p",
    )
    assert {name: config[name] for name in files} == {name: str(path) for name, path in files.items()}
    assert (config["ssl_password"], config["ssl_check_hostname"], config["request_timeout_ms"]) == ("q", False, 7_000)
    assert settings.sasl_password == SecretStr("p")
    assert "'p'" not in repr(settings)
    plain = build_client_config(build_settings())
    assert not {name for name in plain if name.startswith(("sasl", "ssl"))}
