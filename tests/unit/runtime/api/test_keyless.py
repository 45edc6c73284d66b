from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from service.access.key_records import StoredKeys
from service.access.key_text import hash_key
from service.errors import SettingsError
from service.log.read import read_topic
from service.runtime.api.keyless import prepare_keyless_start
from service.runtime.open_log import build_topics, open_log
from service.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

EVERYWHERE = "0.0.0.0"  # noqa: S104 - compared with, not listened on


def prepare(folder: Path, address: str, **api: str) -> list[str]:
    """The lines that are announced."""
    announced: list[str] = []
    settings = make_settings(folder, address, **api)
    prepare_keyless_start(settings, build_topics(settings), address, announced.append)
    return announced


def make_settings(folder: Path, address: str, **api: str) -> Settings:
    return Settings.model_validate({"log": {"path": folder / "log.sqlite"}, "api": {"host": address, **api}})


def read_keys(folder: Path) -> StoredKeys:
    settings = make_settings(folder, "127.0.0.1")
    with closing(open_log(settings)) as log:
        return StoredKeys(read_topic(log, build_topics(settings).keys))


@pytest.mark.parametrize("address", [EVERYWHERE, "::", "192.0.2.7"])
def test_an_address_that_others_reach_needs_keys(tmp_path: Path, address: str) -> None:
    with pytest.raises(
        SettingsError, match=r"labelwatch key new --name NAME --role admin.*LABELWATCH_API_KEYLESS=allow"
    ):
        prepare(tmp_path, address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.0.1", "::1"])
def test_this_machine_needs_none(tmp_path: Path, address: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert prepare(tmp_path, address) == []
    assert "there are no keys: everybody on this machine may do everything" in caplog.text
    assert "create one with `labelwatch key new --name NAME --role admin`" in caplog.text
    assert not (tmp_path / "log.sqlite").exists()


def test_nobody_is_warned_if_the_log_has_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prepare(tmp_path, "127.0.0.1", keyless="generate")
    with caplog.at_level(logging.WARNING):
        for address, keyless in (("127.0.0.1", "refuse"), (EVERYWHERE, "allow")):
            assert prepare(tmp_path, address, keyless=keyless) == []
    assert caplog.text == ""


def test_a_log_that_cannot_be_read_may_have_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log.sqlite").write_bytes(b"no database" * 1000)
    with caplog.at_level(logging.WARNING):
        assert prepare(tmp_path, "127.0.0.1") == []
    assert "unless the log has keys, everybody on this machine may do everything" in caplog.text


def test_kafka_is_not_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may take long to answer, and the service starts without it."""
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": "127.0.0.1:9"}, "log": {"path": tmp_path / "x"}})
    with caplog.at_level(logging.WARNING):
        prepare_keyless_start(settings, build_topics(settings), "127.0.0.1", print)
    assert "unless the log has keys, everybody on this machine may do everything" in caplog.text


@pytest.mark.parametrize(
    "api",
    [{"keyless": "allow"}, {"keys": f"lead:admin:{hash_key('x')}"}, {"proxy_addresses": "10.0.0.1"}],
    ids=["allowed", "keys", "proxy"],
)
def test_keys_a_proxy_or_the_setting_allow_any_address(tmp_path: Path, api: dict[str, str]) -> None:
    assert prepare(tmp_path, EVERYWHERE, **api) == []


def test_a_first_key_is_created_and_shown_once(tmp_path: Path) -> None:
    (line,) = prepare(tmp_path, EVERYWHERE, keyless="generate")
    (key,) = read_keys(tmp_path).active
    shown = line.split("admin: ")[1].split()[0]
    assert (key.name, key.role, key.digest) == ("admin", "admin", hash_key(shown))
    assert prepare(tmp_path, EVERYWHERE, keyless="generate") == []
    assert prepare(tmp_path, EVERYWHERE) == []  # it has a key now
    assert len(read_keys(tmp_path).keys) == 1
