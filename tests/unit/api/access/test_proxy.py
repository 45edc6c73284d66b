"""Users that a trusted proxy has logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from service.access.key_text import generate_key, hash_key
from service.api.access.caller import Caller
from service.api.access.proxy import ProxyUsers
from service.settings import ApiSettings

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness

KEY = generate_key()
PROXY = ("10.1.2.3", 40000)
SETTINGS = {
    "proxy_addresses": "10.1.0.0/16,127.0.0.1",
    "proxy_groups": "label-admins=admin,reviewers=reviewer,med-team=reviewer:med,law-team=reviewer:law,crowd=annotator:med",
    "keys": f"ingest:send:{hash_key(KEY)}",
}


def serve(harness: ApiHarness, address: tuple[str, int] = PROXY, **changed: Any) -> TestClient:
    harness.serve_with_limits(**{**SETTINGS, **changed})
    return TestClient(harness.app, client=address, raise_server_exceptions=False)


def user(groups: str, name: str = "dana@example.com") -> dict[str, str]:
    return {"X-Forwarded-User": name, "X-Forwarded-Groups": groups}


@pytest.mark.parametrize(
    ("groups", "role", "datasets"),
    [
        ("label-admins", "admin", None),
        ("others, reviewers", "reviewer", None),
        ("med-team", "reviewer", ["med"]),
        ("med-team,law-team", "reviewer", ["law", "med"]),
        ("med-team,reviewers", "reviewer", None),
        ("crowd,med-team", "reviewer", ["med"]),
        ("crowd", "annotator", ["med"]),
    ],
)
def test_groups_become_roles(harness: ApiHarness, groups: str, role: str, datasets: list[str] | None) -> None:
    me = serve(harness).get("/v1/me", headers=user(groups)).json()
    assert (me["name"], me["role"], me["datasets"]) == ("dana@example.com", role, datasets)


@pytest.mark.parametrize(("encoding", "name"), [("utf-8", "Jürgen Łoś"), ("latin-1", "Jürgen")])
def test_names_and_groups_are_utf8_or_latin1(encoding: str, name: str) -> None:
    """The headers as they arrive: a test client always sends UTF-8."""
    users = ProxyUsers(ApiSettings.model_validate({**SETTINGS, "proxy_groups": "prüfer=reviewer:med"}))
    sent = {"x-forwarded-user": name, "x-forwarded-groups": "prüfer"}
    headers = Headers(raw=[(key.encode(), value.encode(encoding)) for key, value in sent.items()])
    assert users.identify(headers, PROXY[0]) == Caller(name, "reviewer", frozenset({"med"}), kind="user")


def test_a_user_without_a_group_that_has_a_role_is_refused(harness: ApiHarness) -> None:
    for headers in (user(""), user("label-adminsx"), {"X-Forwarded-User": "dana@example.com"}):
        refused = serve(harness).get("/v1/me", headers=headers)
        assert (refused.status_code, "none of the groups" in refused.json()["detail"]) == (403, True)


@pytest.mark.parametrize("address", ["10.2.0.1", "192.0.2.7", "::1", "testclient", "fe80::1"])
def test_headers_from_anywhere_else_are_ignored(harness: ApiHarness, address: str) -> None:
    client = serve(harness, (address, 1))
    spoofed = {
        **user("label-admins"),
        "X-Forwarded-For": "10.1.2.3",
        "X-Real-IP": "10.1.2.3",
        "Forwarded": "for=10.1.2.3",
    }
    assert client.get("/v1/me", headers=spoofed).status_code == 401
    assert client.get("/v1/me", headers={**spoofed, "X-API-Key": KEY}).json()["name"] == "ingest"


def test_an_ipv4_address_on_an_ipv6_socket_is_the_same(harness: ApiHarness) -> None:
    client = serve(harness, ("::ffff:10.1.2.3", 1))
    assert client.get("/v1/me", headers=user("reviewers")).json()["role"] == "reviewer"


def test_keys_work_beside_the_proxy(harness: ApiHarness) -> None:
    client = serve(harness)
    assert client.get("/v1/me", headers={"Authorization": f"Bearer {KEY}"}).json()["name"] == "ingest"
    assert client.get("/v1/me", headers={**user("reviewers"), "X-API-Key": KEY}).json()["name"] == "ingest"
    token = {**user("reviewers"), "Authorization": "Bearer eyJ.of.the-provider"}  # proxies may pass it on
    assert client.get("/v1/me", headers=token).json()["name"] == "dana@example.com"
    assert client.get("/v1/me").status_code == 401


def test_two_names_are_no_name(harness: ApiHarness) -> None:
    headers = [("X-Forwarded-User", "dana"), ("X-Forwarded-User", "root"), ("X-Forwarded-Groups", "reviewers")]
    assert serve(harness).get("/v1/me", headers=headers).status_code == 401
    assert serve(harness).get("/v1/me", headers=user("reviewers", "x" * 200)).status_code == 401


def test_the_names_of_the_headers_are_settings(harness: ApiHarness) -> None:
    client = serve(harness, proxy_user_header="X-Auth-Request-Email", proxy_groups_header="X-Auth-Request-Groups")
    assert client.get("/v1/me", headers=user("label-admins")).status_code == 401
    named = {"X-Auth-Request-Email": "kim", "X-Auth-Request-Groups": "reviewers"}
    assert client.get("/v1/me", headers=named).json()["name"] == "kim"


CHANGE = {"control_share": 0.01}
HOST = {"Host": "labels.example.com"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),  # no browser
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://labels.example.com"}, 201),
        ({"Origin": "https://labels.example.com"}, 201),
        ({"Origin": "https://tools.example.com", "Sec-Fetch-Site": "same-site"}, 201),  # a configured origin
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "https://evil.example.com"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "https://labels.example.com"}, 403),
    ],
)
def test_a_page_of_another_origin_changes_nothing(harness: ApiHarness, headers: dict[str, str], status: int) -> None:
    client = serve(harness, cors_origins="https://tools.example.com")
    sent = {**user("label-admins"), **HOST, **headers}
    assert client.patch("/v1/datasets/med", headers=sent, json=CHANGE).status_code == status
    assert client.get("/v1/me", headers=sent).status_code == 200


def test_a_key_is_no_ambient_authority(harness: ApiHarness) -> None:
    client = serve(harness, keys=f"lead:admin:{hash_key(KEY)}")
    headers = {"X-API-Key": KEY, "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert client.patch("/v1/datasets/med", headers=headers, json=CHANGE).status_code == 201


@pytest.mark.parametrize(
    "changed",
    [
        {"proxy_groups": "admins"},
        {"proxy_groups": "admins=boss"},
        {"proxy_groups": "admins=label-studio"},
        {"proxy_groups": "team=reviewer:A B"},
        {"proxy_groups": "team=reviewer:"},
        {"proxy_groups": "team=reviewer:med,team=reviewer"},
        {"proxy_addresses": "10.1.2.3/8"},
        {"proxy_addresses": "proxy"},
    ],
)
def test_wrong_settings_are_refused(changed: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ApiSettings.model_validate({**SETTINGS, **changed})
