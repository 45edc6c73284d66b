"""Without keys, pages under foreign names get no answer (DNS rebinding)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from service.access.key_text import hash_key
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


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"localhost"], [b""]])
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
