"""The content types that the API knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.datastructures import Headers

JSON_MEDIA_TYPE: Final = "application/json"
NDJSON_MEDIA_TYPE: Final = "application/x-ndjson"
XML_MEDIA_TYPE: Final = "application/xml"
NDJSON_ALIASES: Final = frozenset(
    {NDJSON_MEDIA_TYPE, "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)


def get_media_type(headers: Headers) -> str:
    """The `Content-Type` without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(headers: Headers) -> bool:
    media_type = get_media_type(headers)
    return media_type == JSON_MEDIA_TYPE or (media_type.startswith("application/") and media_type.endswith("+json"))


def is_ndjson(headers: Headers) -> bool:
    return get_media_type(headers) in NDJSON_ALIASES


def is_xml(headers: Headers) -> bool:
    return get_media_type(headers) == XML_MEDIA_TYPE
