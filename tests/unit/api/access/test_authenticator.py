from __future__ import annotations

import base64
import logging
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from starlette.datastructures import Headers

from service.access.key_text import generate_key, hash_key
from service.api.access.api_keys import ApiKeys
from service.api.access.authenticator import Authenticator
from service.api.access.caller import Caller
from service.api.http.path_keys import ADDRESS_PREFIXES
from service.api.http.problems import ForbiddenError, UnauthorizedError
from service.settings import ApiSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.testclient import TestClient

    from tests.support.api_harness import ApiHarness

READER, WRITER = generate_key(), generate_key()
KEYS = f"anna:read:{hash_key(READER)}, ben:write:{hash_key(WRITER)}"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def client(harness: ApiHarness) -> TestClient:
    return harness.serve_with_limits(keys=KEYS)


def test_keys_are_long_and_never_the_same() -> None:
    keys = {generate_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("lw_") and len(key) > 40 for key in keys)


def test_settings_hold_hashes_only_and_show_none() -> None:
    settings = ApiSettings.model_validate({"keys": KEYS})
    assert [(key.name, key.role) for key in settings.known_keys] == [("anna", "read"), ("ben", "admin")]
    assert hash_key(READER) not in repr(settings)


@pytest.mark.parametrize(
    "keys",
    [
        "anna",
        "anna:read",
        f"anna:label-studio:{'0' * 64}",
        f"anna:label-studio:A B:{'0' * 64}",
        f"anna:label-studio:a+b:{'0' * 64}",
        f"anna:inception:{'0' * 64}",
        f"anna:reviewer:a+:{'0' * 64}",
        "anna:all:" + "0" * 64,
        "anna:read:abc",
        f"a b:read:{'0' * 64}",
        f"{KEYS},{KEYS}",
    ],
)
def test_keys_that_cannot_be_read_are_refused(keys: str) -> None:
    with pytest.raises(ValidationError):
        ApiSettings.model_validate({"keys": keys})


def test_every_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(known: str, given: str) -> bool:
        compared.append(known)
        return known == given

    monkeypatch.setattr("service.api.access.api_keys.hmac.compare_digest", compare)
    authenticator = Authenticator([ApiKeys(ApiSettings.model_validate({"keys": KEYS}).known_keys)])
    assert authenticator.identify(Headers(bearer(READER))) == Caller("anna", "read")
    assert compared == [hash_key(READER), hash_key(WRITER)]
    assert authenticator.identify(Headers({"X-API-Key": WRITER})) == Caller("ben", "admin")
    for headers in ({}, bearer("wrong"), bearer(hash_key(READER)), {"Authorization": READER}, bearer("")):
        with pytest.raises(UnauthorizedError):
            authenticator.identify(Headers(headers))


class CertificateNames:
    """An auth method: a name that a proxy has verified."""

    is_configured = True
    usage = "connect with a client certificate"
    security_schemes: Mapping[str, Mapping[str, Any]] = {"certificate": {"type": "mutualTLS"}}

    def identify(self, headers: Headers, address: str | None) -> Caller | None:
        name = headers.get("x-client-name")
        return None if name is None else Caller(name, "read")


def test_a_new_auth_method_is_one_class() -> None:
    keys = ApiSettings.model_validate({"keys": KEYS}).known_keys
    authenticator = Authenticator([CertificateNames(), ApiKeys(keys)])
    assert authenticator.identify(Headers({"X-Client-Name": "carol"})) == Caller("carol", "read")
    assert authenticator.identify(Headers(bearer(WRITER))).name == "ben"
    assert list(authenticator.security_schemes) == ["certificate", "bearer", "key"]
    with pytest.raises(UnauthorizedError, match="client certificate; or send a key"):
        authenticator.identify(Headers({}))


def operations(harness: ApiHarness) -> Iterator[tuple[str, str]]:
    for path, methods in harness.app.openapi()["paths"].items():
        for method in methods:
            values = {
                "name": "default",
                "dataset": "default",
                "id": "x",
                "key": "unknown",
                "batch": "7",
                "annotator": "kim",
            }
            yield method.upper(), path.format(**values)


def test_every_operation_is_closed_without_a_key(harness: ApiHarness, client: TestClient) -> None:
    public_paths = set()
    for method, path in operations(harness):
        answer = client.request(method, path)
        if answer.status_code == 401:
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.json()["type"] == "urn:labelwatch:problem:unauthorized"
        else:
            public_paths.add(path)
    assert public_paths == {"/healthz", "/readyz"}


def test_scopes(client: TestClient) -> None:
    assert client.get("/v1/datasets", headers=bearer(READER)).status_code == 200
    assert client.get("/v1/datasets", headers=bearer(WRITER)).status_code == 200
    refused = client.put("/v1/datasets/x", headers=bearer(READER), json={})
    assert (refused.status_code, refused.json()["title"]) == (403, "Forbidden")
    assert client.put("/v1/datasets/x", headers=bearer(WRITER), json={}).status_code == 201
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers=bearer(READER)).status_code == 200
    may_write = [client.get("/v1/model", headers=bearer(key)).json()["may_write"] for key in (READER, WRITER)]
    assert may_write == [False, True]
    assert client.get("/docs").status_code == 200


def test_metrics_may_be_opened(harness: ApiHarness) -> None:
    client = harness.serve_with(settings=ApiSettings.model_validate({"keys": KEYS}), open_metrics=True)
    assert client.get("/metrics").status_code == 200
    assert client.get("/v1/datasets").status_code == 401


def test_no_byte_of_a_body_is_read_before_the_key_is_known(client: TestClient) -> None:
    read = 0

    def body() -> Iterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield b" " * 1000

    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/decisions", content=body(), headers=headers).status_code == 401
    # The client of the tests hands the first parts over whether anybody wants them or not.
    assert read <= 2


def test_the_access_log_names_the_key(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="service.api.http.middleware.request_context"):
        client.get("/v1/datasets", headers=bearer(READER))
        client.get("/v1/datasets", headers=bearer("lw_unknown"))
        client.get("/healthz")
    answered = [record.__dict__ for record in caplog.records if record.message == "answered"]
    assert [(record["status"], record.get("key")) for record in answered] == [(200, "anna"), (401, None), (200, None)]


# -- keys in paths -----------------------------------------------------------------------------------------------------

STUDIO = generate_key()
STUDIO_KEYS = f"{KEYS}, studio:label-studio:trips:{hash_key(STUDIO)}"


def identify_path(path: str, headers: Mapping[str, str] | None = None) -> str:
    keys = ApiKeys(ApiSettings.model_validate({"keys": STUDIO_KEYS}).known_keys)
    return Authenticator([keys], path_keys=keys).identify_path(path, Headers(headers or {})).name


def basic(key: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"anybody:{key}".encode()).decode()}


@pytest.mark.parametrize("operation", ["health", "setup", "predict", "versions", "webhook"])
def test_a_key_in_a_path_is_for_its_dataset(operation: str) -> None:
    assert identify_path(f"/label-studio/trips/{STUDIO}/{operation}") == "studio"
    with pytest.raises(ForbiddenError, match="is not for dataset other: it is for trips"):
        identify_path(f"/label-studio/other/{STUDIO}/{operation}")
    with pytest.raises(ForbiddenError, match="--role label-studio --dataset trips"):
        identify_path(f"/label-studio/trips/{WRITER}/{operation}")
    for path in (f"/label-studio/trips/wrong/{operation}", f"/label-studio/trips//{operation}", "/label-studio/trips"):
        with pytest.raises(UnauthorizedError):
            identify_path(path, bearer(STUDIO))


def test_basic_authentication_is_for_all_but_the_webhook() -> None:
    assert identify_path("/label-studio/trips/-/predict", basic(STUDIO)) == "studio"
    with pytest.raises(ForbiddenError):
        identify_path("/label-studio/other/-/predict", basic(STUDIO))
    with pytest.raises(UnauthorizedError):
        identify_path("/label-studio/trips/-/webhook", basic(STUDIO))
    for headers in ({}, basic("wrong"), basic(""), {"Authorization": "Basic %%%"}, {"Authorization": "Basic /w=="}):
        with pytest.raises(UnauthorizedError):
            identify_path("/label-studio/trips/-/predict", headers)


def test_keys_in_paths_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def compare(known: str, given: str) -> bool:
        compared.append(known)
        return known == given

    monkeypatch.setattr("service.api.access.api_keys.hmac.compare_digest", compare)
    assert identify_path(f"/label-studio/trips/{STUDIO}/health") == "studio"
    assert compared == [hash_key(READER), hash_key(WRITER), hash_key(STUDIO)]


def test_a_key_for_label_studio_opens_nothing_else(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(keys=STUDIO_KEYS)
    for method, path in operations(harness):
        if not path.startswith((*ADDRESS_PREFIXES, "/healthz", "/readyz")):
            refused = client.request(method, path, headers=bearer(STUDIO))
            assert refused.status_code == 403, path
            assert "may only be part of an address /label-studio/" in refused.json()["detail"]
    assert client.get(f"/label-studio/trips/{STUDIO}/health").status_code == 200
    other = client.post(f"/inception/trips/{STUDIO}/train", json={})
    assert (other.status_code, "--role inception --dataset trips" in other.json()["detail"]) == (403, True)
