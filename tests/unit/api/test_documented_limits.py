"""Every limit in the OpenAPI document is enforced: one more than it allows is refused with the name of the field.

The cases come from the document, so a new field with a limit is tested without a line here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api_harness import ApiHarness

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[3] / "schemas" / "openapi.json").read_text())
METHODS = ("get", "post", "put", "patch", "delete")
JSON = "application/json"
# Valid values for what a body or query needs beside the field with the limit.
VALID: dict[str, Any] = {
    "tokens": ["Oslo"],
    "labels": ["O"],
    "verdict": "ok",
    "id": "1",
    "dataset": "default",
    "reviewer": "kim",
}
BODIES = {
    "LabelledSentence": ("tokens", "labels"),
    "Decision": ("id", "verdict", "reviewer"),
}


OVERWRITTEN = {("Decision", "recorded_by")}  # the service sets it, whatever the client sends


class Case(NamedTuple):
    method: str
    path: str
    place: str  # path, query, or the title of the body's schema
    name: str
    value: Any

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.place} {self.name}"


def iterate_variants(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema itself, and all that it may be instead."""
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    yield schema
    for keyword in ("anyOf", "oneOf", "allOf"):
        for variant in schema.get(keyword, ()):
            yield from iterate_variants(variant)


def exceed_limits(schema: dict[str, Any]) -> Iterator[Any]:
    """A value just above each limit of the schema."""
    for variant in iterate_variants(schema):
        if "maximum" in variant:
            step = 1 if variant.get("type") == "integer" else 0.001
            yield variant["maximum"] + step
        if "exclusiveMaximum" in variant:
            yield int(variant["exclusiveMaximum"]) if variant.get("type") == "integer" else variant["exclusiveMaximum"]
        if "maxLength" in variant:
            yield "x" * (variant["maxLength"] + 1)
        if "maxItems" in variant:
            yield [f"T{number}" for number in range(variant["maxItems"] + 1)]
        if "maxProperties" in variant:
            yield {f"T{number}": "O" for number in range(variant["maxProperties"] + 1)}


def list_cases() -> Iterator[Case]:
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if method not in METHODS:
                continue
            for parameter in operation.get("parameters", ()):
                for value in exceed_limits(parameter["schema"]):
                    yield Case(method, path, parameter["in"], parameter["name"], value)
            body = operation.get("requestBody", {}).get("content", {}).get(JSON, {}).get("schema", {})
            for variant in iterate_variants(body):
                for name, field in variant.get("properties", {}).items():
                    if (variant.get("title"), name) in OVERWRITTEN:
                        continue
                    for value in exceed_limits(field):
                        yield Case(method, path, variant.get("title", "body"), name, value)


CASES = list(list_cases())


def test_the_document_has_limits_of_all_kinds() -> None:
    kinds = {type(case.value) for case in CASES}
    assert {int, float, str, list, dict} <= kinds
    assert len(CASES) > 40


@pytest.mark.parametrize("case", CASES, ids=map(str, CASES))
def test_one_more_than_the_limit_is_refused_by_name(quiet: ApiHarness, case: Case) -> None:
    path, query, body = case.path, {}, None
    operation = DOCUMENT["paths"][case.path][case.method]
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        value = case.value if (case.place, case.name) == (parameter["in"], name) else VALID.get(name, "default")
        if parameter["in"] == "path":
            path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
        elif parameter["in"] == "query" and (parameter.get("required") or value is case.value):
            query[name] = str(value)
    if "requestBody" in operation:
        body = {name: VALID[name] for name in BODIES.get(case.place, ())}
        if case.place not in ("path", "query"):
            body[case.name] = case.value
    answer = quiet.client.request(case.method, path, params=query, json=body)
    assert 400 <= answer.status_code < 500, answer.text
    assert case.name in answer.text
