"""Without keys, pages under foreign names get no answer (DNS rebinding)."""

from __future__ import annotations

import asyncio
import ipaddress
import string
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers

from service.access.key_text import hash_key
from service.api.http.hosts import HostCheck
from service.api.http.problems import BadRequestError, ForbiddenError
from service.settings import ApiSettings
from tests.support.scoring_harness import AsgiExchange

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness


@pytest.mark.parametrize(
    "host",
    [
        "localhost:8765", "127.0.0.1:8765", "[::1]:8765", "192.168.7.9", "labelwatch", "app.localhost",
        "Labels.Example.org:443",
    ],
)  # fmt: skip
def test_own_names_and_addresses_are_answered(harness: ApiHarness, host: str) -> None:
    client = harness.serve_with_limits(hosts="labels.example.org, other.example.org")
    assert client.get("/v1/datasets", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["rebound.example.com", "127.0.0.1.example.com", "localhost.example.com:8765", "1.2.3"]
)
def test_a_foreign_name_can_neither_read_nor_write(harness: ApiHarness, host: str) -> None:
    headers = {"Host": host}
    for answer in (
        harness.client.get("/v1/datasets", headers=headers),
        harness.client.get("/", headers=headers),
        harness.client.post("/v1/sentences", json={"tokens": ["x"], "labels": ["O"]}, headers=headers),
        harness.client.put("/v1/datasets/x", json={}, headers=headers),
    ):
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:labelwatch:problem:forbidden")
        assert "LABELWATCH_API_HOSTS" in answer.json()["detail"]
        assert "`labelwatch key new --name NAME --role admin`, or set LABELWATCH_API_KEYS" in answer.json()["detail"]
    assert harness.client.get("/readyz", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8765", 200),
        ("https://console.example.org", 200),
        ("http://localhost:3000", 403),
        ("https://foreign.example.com", 403),
        ("null", 403),
    ],
)
def test_a_foreign_origin_is_refused(harness: ApiHarness, origin: str, status: int) -> None:
    client = harness.serve_with_limits(cors_origins="https://console.example.org")
    answer = client.get("/v1/datasets", headers={"Host": "localhost:8765", "Origin": origin})
    assert answer.status_code == status


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "//", "http://a]b"])
def test_an_origin_that_is_none_is_refused(harness: ApiHarness, origin: str) -> None:
    answer = harness.client.get("/v1/datasets", headers={"Host": "localhost:8765", "Origin": origin})
    assert answer.status_code == 403


def check_host(host: bytes, known: str = "") -> None:
    HostCheck(ApiSettings(hosts=known)).check(Headers(raw=[(b"host", host)]))


@pytest.mark.parametrize(
    "host",
    [
        b"", b" ", b"a b", b":80", b"localhost:http", b"localhost:80:80", b"localhost/", b"localhost\\", b"user@localhost", b"a,b",
        b"localhost#", b"localhost?", b"%", b"evil%2eorg", b"[::1", b"::1", b"[::1]x", b"[::1]:x", b"[]", b"[localhost]", b"[::1%eth0]",
        b"[127.0.0.1]", b"a]", b"b\xfccher", b"\xc2\xb9", b"localhost:\xb9", b"a\x00", b"a\tb", b"localhost\n", b'a"', b"<a>", b"{a}",
    ],
)  # fmt: skip
def test_what_is_no_name_is_refused(host: bytes) -> None:
    with pytest.raises(BadRequestError, match=r"^the Host header is not a valid name: "):
        check_host(host)


UNRESERVED = frozenset((string.ascii_letters + string.digits + "-._~").encode())


def is_valid_host(host: bytes) -> bool:
    """The grammar of `Host` in RFC 9110 and RFC 3986, without the characters that no name has: escapes and delimiters."""
    if host.startswith(b"["):
        address, bracket, rest = host[1:].partition(b"]")
        try:
            ipaddress.IPv6Address(address.decode("ascii"))
        except ValueError:
            return False
        return bool(bracket) and b"%" not in address and (not rest or (rest[:1] == b":" and is_port(rest[1:])))
    name, _, port = host.partition(b":")
    return bool(name) and is_port(port) and UNRESERVED.issuperset(name)


def is_port(port: bytes) -> bool:
    return frozenset(b"0123456789").issuperset(port)


PARTS = st.sampled_from(
    [b"localhost", b"127.0.0.1", b"[", b"]", b"::1", b":", b"80", b".", b"%", b"41", b" ", b"@", b"/", b"evil.example.com"]
)  # fmt: skip
HOSTS = st.one_of(st.binary(max_size=12), st.lists(PARTS | st.binary(max_size=1), max_size=5).map(b"".join))


@given(HOSTS)
@settings(max_examples=1_000)
def test_only_valid_names_are_accepted_and_no_foreign_ones(host: bytes) -> None:
    try:
        check_host(host)
    except BadRequestError:
        assert not is_valid_host(host)
    except ForbiddenError:
        assert is_valid_host(host)
    else:
        assert is_valid_host(host)
        assert b"example" not in host or host.lower().partition(b":")[0].endswith(b".localhost")


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"localhost"], [b""], [b"a b"]])
def test_a_request_has_one_host(harness: ApiHarness, hosts: list[bytes]) -> None:
    exchange = AsgiExchange(harness.app, "/v1/score", content_type="application/json")
    exchange.set_headers([(b"content-type", b"application/json"), *((b"host", host) for host in hosts)])

    async def send() -> int:
        async with exchange:
            return int((await exchange.receive())["status"])

    assert asyncio.run(send()) == 400


def test_with_keys_any_name_is_answered(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(keys=f"w:write:{hash_key('write-key')}")
    headers = {"Host": "labels.example.com", "Origin": "https://labels.example.com", "X-API-Key": "write-key"}
    assert client.get("/v1/datasets", headers=headers).status_code == 200
