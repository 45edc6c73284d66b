"""Rejects requests before their body is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from service.api.access.caller import CALLER_KEY
from service.api.access.proxy import check_same_origin
from service.api.http.hosts import HostCheck
from service.api.http.media_types import get_media_type, is_json, is_ndjson, is_xml
from service.api.http.middleware.request_limits import RequestLimits
from service.api.http.path_keys import ADDRESS_PREFIXES
from service.api.http.problems import (
    DrainingError,
    MediaTypeError,
    RequestError,
    TooLargeError,
    build_problem_response,
)

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from service.api.access.authenticator import Authenticator
    from service.api.access.table import AccessTable
    from service.api.backend import ScoringBackend
    from service.api.http.body_budget import BodyBudget

API_PREFIXES: Final = ("/v1/", *ADDRESS_PREFIXES)
MAX_SIGNED_BODY_BYTES: Final = 1_000_000  # an event is about one record, and a sentence has at most 1 MiB
PROBE_PATHS: Final = frozenset({"/healthz", "/readyz"})
MAX_SHOWN_ENCODING: Final = 50  # characters
LABEL_SET_SUFFIX: Final = "/label-set"  # takes the XML of a labelling interface


class AccessControl:
    """Rejects requests that may not enter. Checks the key before it reads a byte of the body."""

    def __init__(
        self,
        app: ASGIApp,
        backend: ScoringBackend,
        authenticator: Authenticator,
        access_table: AccessTable,
        body_budget: BodyBudget,
    ) -> None:
        self._app = app
        self._backend = backend
        self._authenticator = authenticator
        self._table = access_table
        self._body_budget = body_budget
        self._host_check = HostCheck(backend.settings)
        self._origins = frozenset(backend.settings.origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self.check_access(scope)
            limit = self._get_body_limit(scope["path"])
            limits = RequestLimits(scope, receive, send, self._backend, self._body_budget, max_body_bytes=limit)
            await limits.run(self._app)
        except RequestError as error:
            response = build_refusal(error, request_id=scope["state"]["request_id"])
            await response(scope, receive, send)

    def _get_body_limit(self, path: str) -> int | None:
        """Anybody may send a body to a path that checks signatures, since the signature is over the whole body."""
        if not self._table.is_signed(path):
            return None
        return min(MAX_SIGNED_BODY_BYTES, self._backend.settings.max_body_bytes)

    def check_access(self, scope: Scope) -> None:
        """Raises `RequestError` for a request that may not enter. Adds the caller to the request's state."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        if path not in PROBE_PATHS and self._authenticator.is_open:  # probes choose their Host
            self._host_check.check(headers)
        if self._backend.draining.is_set() and path.startswith(API_PREFIXES):
            self._backend.telemetry.count_overload("draining")
            raise DrainingError("the service is stopping: try again, here or at another instance")
        self._check_caller(scope, headers)
        has_body = method in ("POST", "PUT", "PATCH") and path.startswith(API_PREFIXES)
        takes_xml = path.endswith(LABEL_SET_SUFFIX)
        if has_body and not (is_json(headers) or is_ndjson(headers) or (takes_xml and is_xml(headers))):
            # Also a protection from cross-site requests: a foreign page can't send these types without a preflight.
            raise MediaTypeError(
                f"{get_media_type(headers) or 'no Content-Type'}: send `Content-Type: application/json`, or "
                + ("application/xml" if takes_xml else "application/x-ndjson if the route takes lines")
            )
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if has_body and encoding not in ("", "identity"):
            raise MediaTypeError(
                f"Content-Encoding {encoding[:MAX_SHOWN_ENCODING]}: send the body as it is, not packed"
            )

    def _check_caller(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        found = self._table.find(scope["method"], path)
        if found.rule.is_public:
            return
        in_path = path.startswith(ADDRESS_PREFIXES)
        if in_path:
            caller = self._authenticator.identify_path(path, headers)
        else:
            caller = self._authenticator.identify(headers, (scope.get("client") or (None,))[0])
        scope["state"][CALLER_KEY] = caller
        check_same_origin(caller, scope["method"], headers, self._origins)
        found.check(caller, scope)


def build_refusal(error: RequestError, *, request_id: str) -> Response:
    """The response to a request that is not read any further."""
    response = build_problem_response(error, request_id=request_id)
    if isinstance(error, DrainingError | TooLargeError):  # the rest of the body is not read
        response.headers["Connection"] = "close"
    return response
