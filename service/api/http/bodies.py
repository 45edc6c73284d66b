"""Reads JSON bodies strictly. Every error names the field and says what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from service.api.http.json_text.parse import parse_json
from service.api.http.json_text.split import LARGE_BYTES, check_record_shape
from service.api.http.media_types import is_ndjson
from service.api.http.problems import MediaTypeError, TooLargeError
from service.api.http.threads import run_in_thread
from service.contracts.validation import join_path, shorten, to_invalid_input
from service.errors import DecodeError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

ModelT = TypeVar("ModelT", bound=BaseModel)


async def read_json_object(request: Request) -> dict[str, Any]:
    """The body of a request, which must be one JSON object."""
    if is_ndjson(request.headers):
        raise MediaTypeError("this route takes one JSON object: send `Content-Type: application/json`")
    raw = await request.body()
    body = parse_json(raw) if len(raw) <= LARGE_BYTES else await run_in_thread(_parse_large, raw)
    if not isinstance(body, dict):
        raise DecodeError("the body is not a JSON object: send one in braces")
    return body


async def read_empty_object(request: Request) -> None:
    """The body of a request without fields: one that is sent would be ignored."""
    fields = await read_json_object(request)
    if fields:
        raise InvalidInput("this request has no fields: send {}", field=shorten(next(iter(fields))))


def _parse_large(raw: bytes) -> object:
    check_record_shape(raw)
    return parse_json(raw)


def parse_message(model: type[ModelT], fields: object, *, location: str | None = None) -> ModelT:
    """The fields as a message; an unknown field is an error. `location`: the path of the fields in the body."""
    try:
        # From JSON and in strict mode, so that it accepts exactly what the schema says.
        return model.model_validate_json(to_json(fields), extra="forbid", strict=True)
    except ValidationError as error:
        raise to_invalid_input(error, location=location) from None


def list_messages(body: Mapping[str, Any], name: str, max_items: int) -> list[tuple[str | None, object]]:
    """The body as one message, or the list that it holds under `name`; each with its path in the body."""
    if name not in body:
        return [(None, body)]
    other_fields = sorted(set(body) - {name})
    if other_fields:
        raise InvalidInput(f"it stands beside `{name}`: leave it out", field=shorten(other_fields[0]))
    messages = body[name]
    if not isinstance(messages, list) or not messages:
        raise InvalidInput("give a list with at least one", field=name)
    if len(messages) > max_items:
        raise TooLargeError(
            f"{len(messages):,} {name}, the limit is {max_items:,} per request: send several requests", field=name
        )
    return [(f"{name}.{index}", message) for index, message in enumerate(messages)]


def with_location(error: InvalidInput, location: str | None) -> InvalidInput:
    """The error with its field as a path from the start of the body."""
    return type(error)(error.problem, field=join_path((location, error.field)), word=error.word, token=error.token)


def pop_options(body: dict[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Removes the options beside the list from the body, and returns them by name."""
    options = {name: body.pop(name) for name in names if body.get(name) is not None}
    for name, value in options.items():
        if not isinstance(value, str):
            raise InvalidInput("give its name as text", field=name)
    return options


def pop_flag(body: dict[str, Any], name: str) -> bool:
    """Removes a yes-or-no option from the body; false where it is not given."""
    value = body.pop(name, False)
    if not isinstance(value, bool):
        raise InvalidInput("give true or false", field=name)
    return value
