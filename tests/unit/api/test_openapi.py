from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from pydantic import TypeAdapter
from starlette.testclient import TestClient

from service.api.openapi import ASSETS

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness


def test_the_page_loads_nothing_from_other_hosts(quiet: ApiHarness) -> None:
    page = quiet.client.get("/docs")
    assert page.status_code == 200
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert links
    for address in links:
        assert not address.startswith(("http", "//", "/"))  # relative: it works behind a path too
        assert quiet.client.get(f"/{address}").status_code == 200
    # The policy allows no script in the page itself, so there must be none.
    assert "script-src 'self';" in page.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\ssrc=)", page.text)
    assert not re.search(r"\son\w+=", page.text)


@pytest.mark.parametrize("name", ASSETS)
def test_assets_are_served_with_their_media_type(quiet: ApiHarness, name: str) -> None:
    answer = quiet.client.get(f"/docs/assets/{name}")
    assert answer.headers["content-type"].startswith(ASSETS[name])
    assert len(answer.content) > 1000


@pytest.mark.parametrize("name", ["core.py", "..%2Fcore.py", "redoc.standalone.js", "%2e%2e/core.py"])
def test_no_other_path_is_served(quiet: ApiHarness, name: str) -> None:
    assert quiet.client.get(f"/docs/assets/{name}").status_code == 404


def test_every_operation_is_described(quiet: ApiHarness) -> None:
    document = quiet.client.get("/openapi.json").json()
    names = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names.append(operation["operationId"])
            assert operation["summary"], path
            assert operation["description"], path
            assert operation["tags"], path
            assert "4XX" in operation["responses"]
            assert ("security" in operation) == (path not in ("/healthz", "/readyz")), path
            if method in ("post", "put"):
                assert operation["requestBody"]["required"], path
    assert len(set(names)) == len(names)
    assert "HTTPValidationError" not in str(document)
    for reference in re.findall(r"#/components/schemas/(\w+)", str(document)):
        assert reference in document["components"]["schemas"]


def test_routes_are_built_before_the_first_request(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would hold up all others."""
    built = []
    real = TypeAdapter.__init__

    def init(own: Any, *arguments: Any, **options: Any) -> None:
        built.append(arguments)
        real(own, *arguments, **options)

    monkeypatch.setattr(TypeAdapter, "__init__", init)
    assert TestClient(harness.app).get("/v1/review").status_code == 200
    assert built == []


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"name": "dana", "role": "reviewer"}, True),
        ({"name": "dana", "role": "label-studio", "datasets": ["med"]}, True),
        ({"name": "dana", "role": "label-studio"}, False),
        ({"name": "dana", "role": "inception", "datasets": ["med", "news"]}, False),
        ({"name": "dana", "role": "reviewer", "other": 1}, False),
    ],
)
def test_conditions_of_a_body_hold_beside_its_other_fields(
    quiet: ApiHarness, body: dict[str, Any], is_valid: bool
) -> None:
    document = quiet.client.get("/openapi.json").json()
    schema = document["paths"]["/v1/keys"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert jsonschema_rs.is_valid(schema, body) == is_valid
