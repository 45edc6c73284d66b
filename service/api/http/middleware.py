"""What every request passes before its route, outermost first.

    Envelope ─ request id, security headers, metrics, a log line; what nobody caught becomes a problem without a trace
    (CORS)   ─ only where origins are set
    Gate     ─ draining, key, kind and size of the body, time

They are plain ASGI, so that answers stream through them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect

from service.api.http.auth import PUBLIC_PATHS, PUBLIC_PREFIXES
from service.api.http.problems import (
    BodyTimeoutError,
    DrainingError,
    MediaTypeError,
    RequestError,
    ResponseTimeoutError,
    TooLargeError,
    build_problem_response,
)
from service.telemetry import current_request_id as current_request

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from service.api.backend import Backend
    from service.api.http.auth import Authenticator

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER = "X-Request-ID"
_VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
NDJSON_MEDIA_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
# As they go over the wire: they are added to every answer, and building header objects for it costs more than them.
_RAW_REQUEST_ID_HEADER = REQUEST_ID_HEADER.lower().encode()
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
API_PREFIX = "/v1/"
_RAW_FETCH_SITE_HEADER = b"sec-fetch-site"
PROBE_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
LONG_LIVED_PATHS = frozenset({"/v1/events"})  # open for as long as somebody looks
NO_ROUTE = ""
BODY_TOO_LARGE_KEY = "too_large"  # in the state of a request for lines whose body is over the limit: the error


def get_media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def is_ndjson(headers: Headers) -> bool:
    return get_media_type(headers) in NDJSON_MEDIA_TYPES


class RequestContext:
    """The outermost: whatever happens inside, an answer goes out that says which request it belongs to."""

    def __init__(self, app: ASGIApp, backend: Backend) -> None:
        self._app = app
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for key, value in scope["headers"] if key == _RAW_REQUEST_ID_HEADER), b"").decode("latin-1")
        name = given if _VALID_REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = name
        status, started = 0, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [pair for pair in message["headers"] if pair[0] != _RAW_REQUEST_ID_HEADER]
                told = {key for key, _ in headers}
                headers += (pair for pair in SECURITY_HEADERS if pair[0] not in told)
                message["headers"] = [*headers, (_RAW_REQUEST_ID_HEADER, name.encode())]
            await send(message)

        token = current_request.set(name)
        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            status = status or 499  # nobody is left to tell
        except Exception as error:
            logger.exception("a request failed")
            if status:  # half an answer is out: the connection must break, or it would pass for a whole one
                raise
            await build_problem_response(error, request_id=name)(scope, receive, sending)
        finally:
            self._record_request(scope, status, time.perf_counter() - started)
            current_request.reset(token)

    def _record_request(self, scope: Scope, status: int, seconds: float) -> None:
        path, method = scope["path"], scope["method"]
        route = getattr(scope.get("route"), "path_format", NO_ROUTE)
        if path not in LONG_LIVED_PATHS:
            self._backend.telemetry.observe_http_request(
                route=route, method=method, status=status or 500, seconds=seconds
            )
        level = logging.DEBUG if _is_routine(scope, status) else logging.INFO
        # As it came, percent signs and all: a decoded path could write lines of its own. The query may hold names.
        raw = scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", errors="replace")
        logger.log(
            level,
            "answered",
            extra={"method": method, "path": raw, "status": status, "ms": round(1000 * seconds, 1)},
        )


def _is_routine(scope: Scope, status: int) -> bool:
    """What a probe or an open console asks for all the time, as long as it gets it: nobody wants to read of it."""
    path = scope["path"]
    if path in PROBE_PATHS:
        return True
    if scope["method"] not in ("GET", "HEAD") or not 0 < status < HTTPStatus.BAD_REQUEST:
        return False
    # Browsers say this of requests that a page makes to where it came from, and no page can say it of others.
    return (
        path in PUBLIC_PATHS
        or path.startswith(PUBLIC_PREFIXES)
        or (_RAW_FETCH_SITE_HEADER, b"same-origin") in scope["headers"]
    )


class AccessControl:
    """Rejects requests that may not enter. Checks the key before it reads a byte of the body."""

    def __init__(self, app: ASGIApp, backend: Backend, authenticator: Authenticator) -> None:
        self._app = app
        self._backend = backend
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name = scope["state"]["request_id"]
        try:
            self._check_access(scope)
            passage = RequestLimits(scope, receive, send, self._backend)
            await passage.run(self._app)
        except RequestError as error:
            response = build_problem_response(error, request_id=name)
            if isinstance(error, DrainingError | TooLargeError):  # what is left of the body is not read
                response.headers["Connection"] = "close"
            await response(scope, receive, send)

    def _check_access(self, scope: Scope) -> None:
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if self._backend.draining.is_set() and path.startswith(API_PREFIX):
            self._backend.telemetry.count_overload("draining")
            raise DrainingError("try again in a moment, here or at another instance")
        required_scope = self._authenticator.get_required_scope(method, path)
        if required_scope is not None:
            self._authenticator.authorize(headers, required_scope)
        if method in ("POST", "PUT", "PATCH") and path.startswith(API_PREFIX):
            kind = get_media_type(headers)
            json = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
            if not json and kind not in NDJSON_MEDIA_TYPES:
                # Also what keeps a foreign page in a browser from posting here without asking.
                raise MediaTypeError(
                    f"{kind or 'no Content-Type'}: send `Content-Type: application/json`, or "
                    "application/x-ndjson where the route takes lines"
                )


class RequestLimits:
    """One request on its way: counts what comes in, and ends what takes too long."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, backend: Backend) -> None:
        headers = Headers(scope=scope)
        settings = backend.settings
        self._scope, self._receive, self._send = scope, receive, send
        self._is_ndjson = is_ndjson(headers)
        self._max_bytes = settings.max_stream_bytes if self._is_ndjson else settings.max_body_bytes
        self._timeout = settings.timeout_s
        self._deadline: asyncio.Timeout | None = None
        self._bytes_read = 0
        self._body_complete = self._awaiting_body = (
            False  # whether all of the body has come, and whether the app waits for it
        )
        self._too_large = False
        self._response_started = False
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self._max_bytes:
            raise self._build_too_large_error()

    def _build_too_large_error(self) -> TooLargeError:
        kind, setting = ("NDJSON body", "STREAM") if self._is_ndjson else ("body", "BODY")
        return TooLargeError(
            f"the {kind} is larger than {self._max_bytes:,} bytes: send it in parts"
            f" (the limit is LABELWATCH_API_MAX_{setting}_BYTES)"
        )

    async def run(self, app: ASGIApp) -> None:
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                self._deadline = deadline
                await app(self._scope, self._receive_limited, self._send_limited)
        except TimeoutError:
            if self._response_started or self._deadline is None or not self._deadline.expired():
                raise
            if self._awaiting_body:
                raise BodyTimeoutError(
                    f"the body did not come within {self._timeout:g} seconds: send all of it, or less at once"
                    " (the limit is LABELWATCH_API_TIMEOUT_S)",
                    close=True,
                ) from None
            raise ResponseTimeoutError(
                f"no answer within {self._timeout:g} seconds: try again, or send less at once"
            ) from None
        except Exception:
            if not self._too_large or self._response_started:
                raise
        if self._too_large and not self._response_started:
            raise self._build_too_large_error()

    async def _receive_limited(self) -> Message:
        if self._too_large:
            return {"type": "http.disconnect"}
        self._awaiting_body = not (
            self._body_complete or self._is_ndjson
        )  # lines are read while others of them are worked on
        message = await self._receive()
        self._awaiting_body = False
        self._body_complete = self._body_complete or not message.get("more_body", False)
        self._bytes_read += len(message.get("body", b""))
        if self._bytes_read > self._max_bytes:
            # To the app it looks as if the client had gone; the client is told why. Who answers line by line may
            # have taken some of them already, and tells it himself.
            self._too_large = True
            if self._is_ndjson:
                self._scope["state"][BODY_TOO_LARGE_KEY] = self._build_too_large_error()
            return {"type": "http.disconnect"}
        if self._is_ndjson and self._deadline is not None and not self._response_started:
            self._deadline.reschedule(asyncio.get_running_loop().time() + self._timeout)  # something has come
        return message

    async def _send_limited(self, message: Message) -> None:
        if self._too_large and not self._response_started and not self._is_ndjson:
            return
        if message["type"] == "http.response.start":
            self._response_started = True
            if self._too_large:  # what is left of the body is not read
                MutableHeaders(scope=message)["Connection"] = "close"
            if self._deadline is not None:
                self._deadline.reschedule(None)  # it is under way, for as long as somebody reads
        await self._send(message)
