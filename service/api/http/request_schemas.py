"""The schemas of request bodies in the OpenAPI document: as strict as the code that reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

REFERENCE: Final = "#/components/schemas/"
CONDITIONS: Final = ("if", "then", "else")


def build_inline_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a body without references: a route that parses its body itself has no place for definitions."""
    schema = model.model_json_schema()
    definitions = {f"#/$defs/{name}": part for name, part in schema.pop("$defs", {}).items()}
    return _resolve_references(schema, definitions)


def close_request_bodies(document: Mapping[str, Any]) -> None:
    """Objects with known fields have no others: unknown fields in a request are errors.

    References become copies, because answers may get further fields.
    """
    definitions = {f"{REFERENCE}{name}": part for name, part in document["components"]["schemas"].items()}
    for operations in document["paths"].values():
        for operation in operations.values():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                content["schema"] = _set_additional(_resolve_references(content["schema"], definitions), allowed=False)


def build_patch_schema(schema: Mapping[str, Any], *, merged: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The schema of a JSON merge patch: every field may be left out or null. `merged`: fields with a patch of their own."""
    properties = {
        name: merged.get(name) or {"anyOf": [part, {"type": "null"}]} for name, part in schema["properties"].items()
    }
    return {"type": "object", "properties": properties}


def allow_other_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a body whose unknown fields are ignored: the client is not ours, and may be newer."""
    return _set_additional(schema, allowed=True)


def _set_additional(part: dict[str, Any], *, allowed: bool) -> dict[str, Any]:
    """With `additionalProperties` for each object that has fields and does not say it itself.

    A condition names some of an object's fields only: without the others it would never hold.
    """

    def convert(value: Any) -> Any:  # noqa: ANN401 - any JSON
        if isinstance(value, dict):
            return _set_additional(value, allowed=allowed)
        return [convert(each) for each in value] if isinstance(value, list) else value

    converted = {name: value if name in CONDITIONS else convert(value) for name, value in part.items()}
    if "properties" in part:
        converted.setdefault("additionalProperties", allowed)
    return converted


def _resolve_references(part: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    if "$ref" in part:
        return _resolve_references(definitions[part["$ref"]], definitions)
    resolved: dict[str, Any] = {}
    for name, value in part.items():
        if name == "discriminator":  # maps names to references, and tells nothing that the alternatives don't
            continue
        if isinstance(value, dict):
            resolved[name] = _resolve_references(value, definitions)
        elif isinstance(value, list):
            resolved[name] = [
                _resolve_references(each, definitions) if isinstance(each, dict) else each for each in value
            ]
        else:
            resolved[name] = value
    return resolved
