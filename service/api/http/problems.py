"""Errors as RFC 9457 problem details. One table says which error is which status; no stack trace ever leaves."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.contracts.validation import FieldError, describe, join_path, summarize
from service.errors import (
    DecodeError,
    InferenceError,
    InvalidInput,
    LabelwatchError,
    MessageTooLargeError,
    StateError,
    StreamError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

PROBLEM_MEDIA_TYPE = "application/problem+json"
DEFAULT_RETRY_AFTER_S = 5
QUEUE_UNAVAILABLE = "the review queue can't be read at this moment: try again; the reason is in the service's log"


class RequestError(LabelwatchError):
    """A request that can't be served; each kind has its own status."""

    def __init__(
        self, problem: str, *, field: str | None = None, retry_after: int | None = None, close: bool = False
    ) -> None:
        """`close`: the connection ends with the answer, since what is left of the body is not read."""
        super().__init__(problem)
        self.field = field
        self.retry_after = retry_after
        self.headers = {"Connection": "close"} if close else {}


class NotFoundError(RequestError):
    """There is no such thing."""


class ConflictError(RequestError):
    """Somebody else was first."""


class PreconditionFailedError(RequestError):
    """It is another version than the one that was to be changed."""


class TooLargeError(RequestError):
    """A body, line or list over its limit."""


class BodyTimeoutError(RequestError):
    """The rest of the body does not come."""


class MediaTypeError(RequestError):
    """A body of a kind that is not read here."""


class UnauthorizedError(RequestError):
    """No key, or one that is not known."""


class ForbiddenError(RequestError):
    """A key without the scope."""


class OverloadedError(RequestError):
    """The queue is full."""


class DrainingError(RequestError):
    """The service is about to stop."""


class NotReadyError(RequestError):
    """What was asked for is not read from the log yet."""


class ResponseTimeoutError(RequestError):
    """It took longer than is allowed."""


# The first that fits counts, so kinds stand before what they are kinds of.
PROBLEM_TYPES: tuple[tuple[type[Exception], HTTPStatus, str], ...] = (
    (DecodeError, HTTPStatus.BAD_REQUEST, "unreadable"),
    (MessageTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    (InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid"),
    (InferenceError, HTTPStatus.UNPROCESSABLE_ENTITY, "inference"),
    (UnauthorizedError, HTTPStatus.UNAUTHORIZED, "unauthorized"),
    (ForbiddenError, HTTPStatus.FORBIDDEN, "forbidden"),
    (NotFoundError, HTTPStatus.NOT_FOUND, "not-found"),
    (ConflictError, HTTPStatus.CONFLICT, "conflict"),
    (PreconditionFailedError, HTTPStatus.PRECONDITION_FAILED, "changed"),
    (BodyTimeoutError, HTTPStatus.REQUEST_TIMEOUT, "idle"),
    (TooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    (MediaTypeError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media-type"),
    (OverloadedError, HTTPStatus.TOO_MANY_REQUESTS, "overloaded"),
    (DrainingError, HTTPStatus.SERVICE_UNAVAILABLE, "draining"),
    (NotReadyError, HTTPStatus.SERVICE_UNAVAILABLE, "not-ready"),
    (StreamError, HTTPStatus.SERVICE_UNAVAILABLE, "log-unavailable"),
    (ResponseTimeoutError, HTTPStatus.GATEWAY_TIMEOUT, "timeout"),
)
TITLES = {
    "unreadable": "The message can't be read",
    "invalid": "The message breaks a rule",
    "inference": "The model fails on this sentence",
    "unauthorized": "A key is needed",
    "forbidden": "The key does not allow this",
    "not-found": "There is no such thing",
    "conflict": "Somebody else was first",
    "changed": "It was changed meanwhile",
    "idle": "The rest of the request did not come",
    "too-large": "That is too much at once",
    "media-type": "This kind of body is not read here",
    "overloaded": "Too much is waiting",
    "draining": "The service is about to stop",
    "not-ready": "The log is still being read",
    "log-unavailable": "The log does not answer",
    "timeout": "It took too long",
    "internal": "Something went wrong here",
}
RETRYABLE_PROBLEMS = frozenset({"overloaded", "draining", "not-ready", "log-unavailable", "timeout"})


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it: for programs in `type` and `field`, for people in `detail`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:labelwatch:problem:invalid",
                    "title": "The message breaks a rule",
                    "status": 422,
                    "detail": "`labels`: 1 label for 2 words: give each word one label",
                    "field": "labels",
                    "request_id": "3f0c9d5e",
                }
            ]
        }
    )

    type: str = Field(description="What kind of problem it is, the same for all of its kind")
    title: str
    status: int
    detail: str = Field(description="What is wrong here, and what to change")
    field: str | None = Field(default=None, description="The field that has to be changed")
    line: int | None = Field(default=None, description="Of an NDJSON body, counted from 1")
    request_id: str | None = None


def to_problem(error: Exception, *, request_id: str | None = None, line: int | None = None) -> Problem:
    status, slug, detail = _classify_error(error)
    title = TITLES.get(slug) or HTTPStatus(status).phrase
    field = _get_field(error)
    kind = f"urn:labelwatch:problem:{slug}" if slug in TITLES else "about:blank"
    return Problem(type=kind, title=title, status=status, detail=detail, field=field, line=line, request_id=request_id)


def build_problem_response(error: Exception, *, request_id: str | None = None) -> Response:
    problem = to_problem(error, request_id=request_id)
    return Response(
        encode_problem(problem),
        problem.status,
        headers=dict(_build_headers(error, problem)),
        media_type=PROBLEM_MEDIA_TYPE,
    )


def respond_to_error(error: Exception, *, request_id: str | None = None) -> Response:
    """The problem of an error that nobody has told of yet: where it says that more is in the log, it is."""
    log_unexplained_error(error)
    return build_problem_response(error, request_id=request_id)


def log_unexplained_error(error: Exception) -> None:
    """Writes to the log what its problem does not tell."""
    if _classify_error(error)[0] == HTTPStatus.INTERNAL_SERVER_ERROR or isinstance(error, StateError):
        logger.error("a request failed", exc_info=error)


def encode_problem(problem: Problem) -> bytes:
    """What is quoted from a request may be anything, even half of a surrogate pair."""
    return json.dumps(problem.model_dump(exclude_none=True), ensure_ascii=True, separators=(",", ":")).encode()


def _classify_error(error: Exception) -> tuple[int, str, str]:
    """Status, the last word of the type, and what is told."""
    for kind, status, slug in PROBLEM_TYPES:
        if isinstance(error, kind):
            return status, slug, str(error)
    if isinstance(error, RequestValidationError):
        return _classify_validation_error(error)
    if isinstance(error, StateError):  # the queue's file was deleted, or is closed: it is built anew
        return HTTPStatus.SERVICE_UNAVAILABLE, "not-ready", QUEUE_UNAVAILABLE
    if isinstance(error, HTTPException):
        return error.status_code, "", _describe_http_error(error)
    if isinstance(error, TimeoutError):
        return HTTPStatus.GATEWAY_TIMEOUT, "timeout", "no answer was found in the time allowed: try again, or ask less"
    return HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "it is in the service's log, under the request id"


def _describe_http_error(error: HTTPException) -> str:
    """The framework's own words say only what the status says."""
    told = str(error.detail)
    if told != HTTPStatus(error.status_code).phrase:
        return told
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "there is no such path: /docs tells them all"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow")
        return f"the path does not take this method{f', only {allowed}' if allowed else ''}: /docs tells which do what"
    return told


def _classify_validation_error(error: RequestValidationError) -> tuple[int, str, str]:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return HTTPStatus.BAD_REQUEST, "unreadable", f"the body is not JSON: {first.get('ctx', {}).get('error', '')}"
    field = _get_location(first)
    problem = summarize(describe(first), [FieldError(describe(one), _get_location(one)) for one in error.errors()[1:]])
    return HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"`{field}`: {problem}" if field else problem


def _get_location(first: Mapping[str, Any]) -> str | None:
    """Where it is: without the word that says which part of the request the field is in."""
    return join_path(first["loc"][1:])


def _get_field(error: Exception) -> str | None:
    if isinstance(error, RequestValidationError):
        return None if error.errors()[0]["type"] == "json_invalid" else _get_location(error.errors()[0])
    found = getattr(error, "field", None)
    return found if isinstance(found, str) else None


def _build_headers(error: Exception, problem: Problem) -> dict[str, str]:
    headers = dict(getattr(error, "headers", None) or {})
    if problem.type.rpartition(":")[2] in RETRYABLE_PROBLEMS:
        headers["Retry-After"] = str(getattr(error, "retry_after", None) or DEFAULT_RETRY_AFTER_S)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return headers
