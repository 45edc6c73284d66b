"""The outermost middleware: the identity of a request, and the record of how it ended."""

from __future__ import annotations

import logging
import os
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from service.api.access.caller import CALLER_KEY
from service.api.http.path_keys import hide_key
from service.api.http.problems import build_problem_response
from service.telemetry import current_request_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from service.api.backend import ScoringBackend

    RawHeaders = Iterable[tuple[bytes, bytes]]

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER: Final = "X-Request-ID"
_VALID_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
# Raw pairs, as ASGI sends them: adding them to a response takes 1 µs, with header objects 5 µs.
_RAW_REQUEST_ID_HEADER: Final = REQUEST_ID_HEADER.lower().encode()
SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
_RAW_FETCH_SITE_HEADER: Final = b"sec-fetch-site"
PROBE_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
# Pages without data, which a browser fetches again and again.
PAGE_PATHS: Final = frozenset({"/", "/docs", "/openapi.json", "/favicon.ico"})
PAGE_PREFIXES: Final = ("/docs/", "/console/")
LONG_LIVED_PATHS: Final = frozenset({"/v1/events"})  # open as long as the client listens: no request time
NO_ROUTE: Final = ""
CLIENT_CLOSED_REQUEST: Final = 499  # as nginx logs it


class RequestContext:
    """Whatever happens inside, the client gets a response that names its request."""

    def __init__(self, app: ASGIApp, backend: ScoringBackend) -> None:
        self._app = app
        self._backend = backend

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = read_request_id(scope["headers"])
        scope.setdefault("state", {})["request_id"] = request_id
        status, started, span = 0, time.perf_counter(), None
        if self._backend.tracing is not None and scope["path"] not in PROBE_PATHS:
            span = self._backend.tracing.start_request(scope["headers"], scope["method"], request_id)
            scope["headers"] = span.replace_trace_headers(scope["headers"])

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = complete_headers(message["headers"], request_id)
            await send(message)

        token = current_request_id.set(request_id)
        try:
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = status or CLIENT_CLOSED_REQUEST
        except Exception as error:
            logger.exception("a request failed")
            if status:  # the response has begun: the connection must break, or half of it would look complete
                raise
            await build_problem_response(error, request_id=request_id)(scope, receive, send_with_headers)
        finally:
            self.record_request(scope, status, time.perf_counter() - started)
            if span is not None:
                span.end(route=_get_route(scope), status=status or 500)
            current_request_id.reset(token)

    def record_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Counts and logs a request that has ended."""
        path, method = scope["path"], scope["method"]
        if path not in LONG_LIVED_PATHS:
            self._backend.telemetry.observe_http_request(
                route=_get_route(scope), method=method, status=status or 500, seconds=seconds
            )
        level = logging.DEBUG if _is_routine(scope, status) else logging.INFO
        if logger.isEnabledFor(level):  # the fields take 6 µs
            logger.log(level, "answered", extra=_build_log_fields(scope, status, seconds))


def read_request_id(headers: RawHeaders) -> str:
    """The id that the client has sent, if it is valid; otherwise a new one."""
    for name, value in headers:
        if name == _RAW_REQUEST_ID_HEADER:
            sent_id = value.decode("latin-1")
            if _VALID_REQUEST_ID.fullmatch(sent_id):
                return sent_id
            break
    return os.urandom(16).hex()


def complete_headers(headers: RawHeaders, request_id: str) -> list[tuple[bytes, bytes]]:
    """The headers of a response with those that every response has."""
    completed = [pair for pair in headers if pair[0] != _RAW_REQUEST_ID_HEADER]
    names = {key for key, _ in completed}
    completed += (pair for pair in SECURITY_HEADERS if pair[0] not in names)
    return [*completed, (_RAW_REQUEST_ID_HEADER, request_id.encode())]


def _build_log_fields(scope: Scope, status: int, seconds: float) -> dict[str, object]:
    # Still percent-encoded: a decoded path could forge log lines. Without the query, which may hold names.
    raw_path = scope.get("raw_path", b"").partition(b"?")[0].decode("ascii", errors="replace")
    fields: dict[str, object] = {
        "method": scope["method"],
        "path": hide_key(scope["path"], raw_path),
        "status": status,
        "ms": round(1000 * seconds, 1),
    }
    caller = scope["state"].get(CALLER_KEY)
    return {**fields, "key": caller.name} if caller and caller.name else fields


def _get_route(scope: Scope) -> str:
    """The template of the path, which has no values."""
    return getattr(scope.get("route"), "path_format", NO_ROUTE)


def _is_routine(scope: Scope, status: int) -> bool:
    """Whether it is a request that probes and an open console repeat all the time, and it succeeded."""
    path = scope["path"]
    if path in PROBE_PATHS:
        return True
    if scope["method"] not in ("GET", "HEAD") or not 0 < status < HTTPStatus.BAD_REQUEST:
        return False
    # Browsers set this header on requests of a page to its own origin; a page can't set it itself.
    return (
        path in PAGE_PATHS
        or path.startswith(PAGE_PREFIXES)
        or (_RAW_FETCH_SITE_HEADER, b"same-origin") in scope["headers"]
    )
