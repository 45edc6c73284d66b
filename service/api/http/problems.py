"""Errors as RFC 9457 problem details. One table maps errors to statuses; no response contains a stack trace."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.contracts.validation import FieldError, describe, join_location, summarize
from service.errors import (
    ConflictError,
    DecodeError,
    InferenceError,
    InvalidInput,
    LabelwatchError,
    MessageTooLargeError,
    MissingModelError,
    StateError,
    StreamError,
    UnknownDatasetError,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger(__name__)

PROBLEM_MEDIA_TYPE = "application/problem+json"
DEFAULT_RETRY_AFTER_S = 5
QUEUE_UNAVAILABLE = "the review queue can't be read now: try again; the service's log has the reason"


class RequestError(LabelwatchError):
    """A request that can't be served; each subclass has its own status."""

    def __init__(
        self, problem: str, *, field: str | None = None, retry_after: int | None = None, close: bool = False
    ) -> None:
        """`close`: close the connection after the response, because the rest of the body is not read."""
        super().__init__(problem)
        self.field = field
        self.retry_after = retry_after
        self.headers = {"Connection": "close"} if close else {}


class BadRequestError(RequestError):
    """The head of the request is not valid."""


class NotFoundError(RequestError):
    """The resource does not exist."""


class TooLargeError(RequestError):
    """A body, line or list is over its limit."""


class BodyTimeoutError(RequestError):
    """The client does not send the rest of the body."""


class MediaTypeError(RequestError):
    """The route does not accept this `Content-Type`."""


class UnauthorizedError(RequestError):
    """The request has no key, or an unknown one."""


class ForbiddenError(RequestError):
    """The key does not have the scope."""


class OverloadedError(RequestError):
    """A queue or another bounded resource is full."""


class DrainingError(RequestError):
    """The service is stopping."""


class NotReadyError(RequestError):
    """The API has not read the log far enough yet."""


class ResponseTimeoutError(RequestError):
    """The request took longer than the limit."""


# The first match counts: a subclass stands before its base class.
PROBLEM_TYPES: tuple[tuple[type[Exception], HTTPStatus, str], ...] = (
    (DecodeError, HTTPStatus.BAD_REQUEST, "unreadable"),
    (MessageTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    (InvalidInput, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid"),
    (InferenceError, HTTPStatus.UNPROCESSABLE_ENTITY, "inference"),
    (BadRequestError, HTTPStatus.BAD_REQUEST, "bad-request"),
    (UnauthorizedError, HTTPStatus.UNAUTHORIZED, "unauthorized"),
    (ForbiddenError, HTTPStatus.FORBIDDEN, "forbidden"),
    (NotFoundError, HTTPStatus.NOT_FOUND, "not-found"),
    (UnknownDatasetError, HTTPStatus.NOT_FOUND, "not-found"),
    (VersionMismatchError, HTTPStatus.PRECONDITION_FAILED, "changed"),
    (ConflictError, HTTPStatus.CONFLICT, "conflict"),
    (BodyTimeoutError, HTTPStatus.REQUEST_TIMEOUT, "idle"),
    (TooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
    (MediaTypeError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media-type"),
    (OverloadedError, HTTPStatus.TOO_MANY_REQUESTS, "overloaded"),
    (DrainingError, HTTPStatus.SERVICE_UNAVAILABLE, "draining"),
    (NotReadyError, HTTPStatus.SERVICE_UNAVAILABLE, "not-ready"),
    (StreamError, HTTPStatus.SERVICE_UNAVAILABLE, "log-unavailable"),
    (MissingModelError, HTTPStatus.SERVICE_UNAVAILABLE, "model-missing"),
    (ResponseTimeoutError, HTTPStatus.GATEWAY_TIMEOUT, "timeout"),
)
# Phrases of RFC 9110; this Python's `HTTPStatus` still has those of older RFCs.
RFC_9110_PHRASES = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Content Too Large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Content",
}
RETRYABLE_PROBLEMS = frozenset({"overloaded", "draining", "not-ready", "log-unavailable", "model-missing", "timeout"})


class Problem(BaseModel):
    """An error as RFC 9457 problem details: `type` and `field` are for programs, `detail` is for people."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:labelwatch:problem:invalid",
                    "title": "Unprocessable Content",
                    "status": 422,
                    "detail": "`labels`: 1 label for 2 words: give each word one label",
                    "field": "labels",
                    "request_id": "3f0c9d5e",
                }
            ]
        }
    )

    type: str = Field(description="The kind of problem, a stable name for programs")
    title: str = Field(description="The phrase of the status")
    status: int
    detail: str = Field(description="What is wrong, and what to change")
    field: str | None = Field(default=None, description="The field to change")
    line: int | None = Field(default=None, description="The line of an NDJSON body, counted from 1")
    request_id: str | None = None


def to_problem(error: Exception, *, request_id: str | None = None, line: int | None = None) -> Problem:
    status, slug, detail = _classify_error(error)
    return Problem(
        type=f"urn:labelwatch:problem:{slug}" if slug else "about:blank",
        title=_get_phrase(status),
        status=status,
        detail=detail,
        field=_get_field(error),
        line=line,
        request_id=request_id,
    )


def _get_phrase(status: int) -> str:
    return RFC_9110_PHRASES.get(HTTPStatus(status)) or HTTPStatus(status).phrase


def build_problem_response(error: Exception, *, request_id: str | None = None) -> Response:
    problem = to_problem(error, request_id=request_id)
    return Response(
        encode_problem(problem),
        problem.status,
        headers=dict(_build_headers(error, problem)),
        media_type=PROBLEM_MEDIA_TYPE,
    )


def respond_to_error(error: Exception, *, request_id: str | None = None) -> Response:
    """The response to an error that is not logged yet; logs it if the response says that the log has more."""
    log_unexplained_error(error)
    return build_problem_response(error, request_id=request_id)


def log_unexplained_error(error: Exception) -> None:
    """Logs the errors whose cause is not in the problem."""
    if _classify_error(error)[0] == HTTPStatus.INTERNAL_SERVER_ERROR or isinstance(error, StateError):
        logger.error("a request failed", exc_info=error)


def encode_problem(problem: Problem) -> bytes:
    """ASCII only: the detail may quote a lone surrogate from the request, which UTF-8 can't encode."""
    return json.dumps(problem.model_dump(exclude_none=True), ensure_ascii=True, separators=(",", ":")).encode()


def render_problem_line(error: Exception, *, request_id: str, line: int) -> bytes:
    """The answer to one line of an NDJSON body."""
    return encode_problem(to_problem(error, request_id=request_id, line=line)) + b"\n"


def _classify_error(error: Exception) -> tuple[int, str, str]:
    """Status, the last part of the type (empty: the status says it all), and detail."""
    for kind, status, slug in PROBLEM_TYPES:
        if isinstance(error, kind):
            return status, slug, str(error)
    if isinstance(error, RequestValidationError):
        return _classify_validation_error(error)
    if isinstance(error, StateError):  # the queue's file was deleted or is closed, and is rebuilt
        return HTTPStatus.SERVICE_UNAVAILABLE, "not-ready", QUEUE_UNAVAILABLE
    if isinstance(error, HTTPException):
        return error.status_code, "", _describe_http_error(error)
    if isinstance(error, TimeoutError):
        return HTTPStatus.GATEWAY_TIMEOUT, "timeout", "the service did not answer in time: try again, or ask for less"
    return (
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal",
        "an internal error: the service's log has it under this request id",
    )


def _describe_http_error(error: HTTPException) -> str:
    """The framework's default detail only repeats the status phrase."""
    detail = str(error.detail)
    if detail != HTTPStatus(error.status_code).phrase:
        return detail
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "there is no such path: see /docs for all of them"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow")
        return f"the path does not accept this method{f', only {allowed}' if allowed else ''}: see /docs"
    return detail


def _classify_validation_error(error: RequestValidationError) -> tuple[int, str, str]:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return HTTPStatus.BAD_REQUEST, "unreadable", f"the body is not JSON: {first.get('ctx', {}).get('error', '')}"
    field = _get_location(first)
    others = [FieldError(describe(other), _get_location(other)) for other in error.errors()[1:]]
    detail = summarize(describe(first), others)
    return HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", f"`{field}`: {detail}" if field else detail


def _get_location(error: Mapping[str, Any]) -> str | None:
    """The path of the field, without the part of the request that it is in."""
    return join_location(error["loc"][1:])


def _get_field(error: Exception) -> str | None:
    if isinstance(error, RequestValidationError):
        return None if error.errors()[0]["type"] == "json_invalid" else _get_location(error.errors()[0])
    field = getattr(error, "field", None)
    return field if isinstance(field, str) else None


def _build_headers(error: Exception, problem: Problem) -> dict[str, str]:
    headers = dict(getattr(error, "headers", None) or {})
    if problem.type.rpartition(":")[2] in RETRYABLE_PROBLEMS:
        headers["Retry-After"] = str(getattr(error, "retry_after", None) or DEFAULT_RETRY_AFTER_S)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return headers
