from __future__ import annotations

import os

import pytest

from service.errors import SettingsError
from service.settings import find_unknown_variables, read_settings


@pytest.fixture(autouse=True)
def clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LABELWATCH_")]:
        monkeypatch.delenv(name)


def test_the_first_word_is_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELWATCH_WORKER_BATCH_RECORDS", "7")
    monkeypatch.setenv("LABELWATCH_TOPICS_PREFIX", "trial.")
    settings = read_settings()
    assert (settings.worker.batch_records, settings.topics.prefix) == (7, "trial.")
    assert settings.kafka is None


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LABELWATCH_WORKER_BATCH_RECORDS", "0", "LABELWATCH_WORKER_BATCH_RECORDS: give at least 1"),
        ("LABELWATCH_WORKER_COLOUR", "red", "LABELWATCH_WORKER_COLOUR: there is no such setting"),
        (
            "LABELWATCH_KAFKA_SASL_USERNAME",
            "anna",
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS: the other settings of its group need it",
        ),
        ("LABELWATCH_WORKER", "x", "LABELWATCH_WORKER"),
        ("LABELWATCH_TOPICS_SENTENCES", "no spaces", "LABELWATCH_TOPICS_SENTENCES: it does not have the form"),
        (
            "LABELWATCH_API_HOSTS",
            "a.example, http://b.example",
            "LABELWATCH_API_HOSTS: 'http://b.example' is not a name",
        ),
        ("LABELWATCH_API_HOSTS", "b.example:8765", "LABELWATCH_API_HOSTS: 'b.example:8765' is not a name"),
        ("LABELWATCH_API_CORS_ORIGINS", "b.example", "LABELWATCH_API_CORS_ORIGINS: 'b.example' is not an origin"),
        ("LABELWATCH_API_CORS_ORIGINS", "https://b.example/app", "'https://b.example/app' is not an origin"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as error:
        read_settings()
    assert message in str(error.value)


def test_errors_hold_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELWATCH_KAFKA_BOOTSTRAP_SERVERS", "broker:9092")
    monkeypatch.setenv("LABELWATCH_KAFKA_SASL_PASSWORD", "hunter2")
    with pytest.raises(SettingsError) as error:
        read_settings()
    assert "hunter2" not in str(error.value)
    monkeypatch.setenv("LABELWATCH_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("LABELWATCH_KAFKA_SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("LABELWATCH_KAFKA_SASL_USERNAME", "anna")
    assert "hunter2" not in repr(read_settings())


def test_unknown_variables_with_the_prefix_are_found() -> None:
    environment = {"LABELWATCH_WORKER_ID": "a", "LABELWATCH_WRKER_ID": "a", "PATH": "/bin", "labelwatch_x": "1"}
    assert find_unknown_variables(environment) == ["LABELWATCH_WRKER_ID", "labelwatch_x"]
