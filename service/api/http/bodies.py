"""JSON bodies as routes want them: read strictly, and told clearly where they break a rule."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from service.api.http.middleware import is_ndjson
from service.api.http.problems import MediaTypeError, TooLargeError
from service.contracts.validation import to_decode_error, to_invalid_input
from service.errors import DecodeError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request

ModelT = TypeVar("ModelT", bound=BaseModel)
T = TypeVar("T")


async def read_json_object(request: Request) -> dict[str, Any]:
    """The body, which must be one JSON object: no NaN, no half of a surrogate pair, nothing behind it."""
    if is_ndjson(request.headers):
        raise MediaTypeError("this route takes one JSON object: send `Content-Type: application/json`")
    raw = await request.body()
    try:
        found = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise to_decode_error(raw, error) from None
    if not isinstance(found, dict):
        raise DecodeError("the body is not a JSON object: send one in braces")
    return found


def parse_message(model: type[ModelT], fields: object, *, location: str | None = None) -> ModelT:
    """The fields as a message; unknown ones are an error too. `at`: where they stand in the body."""
    try:
        # As JSON and strictly, so that what is accepted is what the schema says.
        return model.model_validate_json(to_json(fields), extra="forbid", strict=True)
    except ValidationError as error:
        raise to_invalid_input(error, location=location) from None


def list_messages(body: Mapping[str, Any], name: str, max_items: int) -> list[tuple[str | None, object]]:
    """The body as one message, or the list it holds under `name`: each with its place for whoever must correct it."""
    if name not in body:
        return [(None, body)]
    others = sorted(set(body) - {name})
    if others:
        raise InvalidInput(f"it stands beside `{name}`: leave it out", field=others[0])
    found = body[name]
    if not isinstance(found, list) or not found:
        raise InvalidInput("give a list with at least one", field=name)
    if len(found) > max_items:
        raise TooLargeError(
            f"{len(found):,} {name}, at most {max_items:,} are taken at once: send several requests", field=name
        )
    return [(f"{name}.{place}", each) for place, each in enumerate(found)]


def pop_options(body: dict[str, Any], names: Sequence[str]) -> dict[str, str]:
    """What stands beside the list, by its name, and no more in the body."""
    chosen = {name: body.pop(name) for name in names if body.get(name) is not None}
    for name, value in chosen.items():
        if not isinstance(value, str):
            raise InvalidInput("give its name as text", field=name)
    return chosen


async def run_in_thread(function: Callable[..., T], *arguments: object, **named: object) -> T:
    """What waits for a disk or a broker must not hold up the others; who asked may stop waiting for it."""
    return await anyio.to_thread.run_sync(partial(function, *arguments, **named), abandon_on_cancel=True)
