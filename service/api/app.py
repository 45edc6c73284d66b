"""Builds the FastAPI app over a `Backend`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from service import __version__
from service.api import openapi as docs
from service.api.access.api_keys import ApiKeys
from service.api.access.authenticator import Authenticator
from service.api.access.proxy import ProxyUsers
from service.api.access.table import AccessTable
from service.api.backend import get_request_id
from service.api.http.body_budget import BodyBudget
from service.api.http.middleware.access_control import AccessControl
from service.api.http.middleware.request_context import REQUEST_ID_HEADER, RequestContext
from service.api.http.ndjson.limiter import StreamLimiter
from service.api.http.problems import respond_to_error
from service.api.ingest.platform_settings import list_signed_paths
from service.api.routes import console, dead_letters, export, health, me, model, score, sentences
from service.api.routes.admin import audit, keys, webhook_endpoints
from service.api.routes.datasets import agreement, annotators, batches, label_set, models, settings, thresholds
from service.api.routes.platforms import inception, label_studio, webhooks
from service.api.routes.review import claims, decisions, events, items, overview, previews
from service.api.scoring.scorer import Scorer
from service.errors import LabelwatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import APIRouter
    from starlette.requests import Request
    from starlette.responses import Response

    from service.api.backend import Backend, ScoringBackend

    class RouteModule(Protocol):
        router: APIRouter


ROUTE_MODULES = (
    score,
    sentences,
    webhooks,
    label_studio,
    inception,
    items,
    claims,
    decisions,
    previews,
    overview,
    settings,
    label_set,
    thresholds,
    batches,
    agreement,
    models,
    dead_letters,
    annotators,
    export,
    webhook_endpoints,
    model,
    me,
    keys,
    audit,
    console,
    events,
    health,
    docs,
)
SCORING_ROUTE_MODULES = (score,)
EXPOSED_HEADERS = [REQUEST_ID_HEADER, "ETag", "Retry-After", "Server-Timing"]


def create_app(backend: Backend) -> FastAPI:
    """The whole API."""
    app = _create_app(backend, ROUTE_MODULES)
    app.state.queue_watcher = events.QueueWatcher(backend)
    app.state.settings_lock = asyncio.Lock()
    _cache_openapi(app)
    return app


def create_scoring_app(backend: ScoringBackend) -> FastAPI:
    """`POST /v1/score` alone, behind the same middleware."""
    return _create_app(backend, SCORING_ROUTE_MODULES)


def _create_app(backend: ScoringBackend, modules: Sequence[RouteModule]) -> FastAPI:
    app = FastAPI(
        title="labelwatch",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=_get_operation_id,
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
        },  # else checked at each request, and its spans have paths and queries; `Telemetry` and `Tracing` replace it
    )
    app.state.backend = backend
    api_keys = ApiKeys(backend.settings.known_keys, backend.key_view)
    app.state.authenticator = Authenticator([ProxyUsers(backend.settings), api_keys], path_keys=api_keys)
    app.state.access_table = AccessTable(
        (route for module in modules for route in module.router.routes),
        open_metrics=backend.open_metrics,
        signed_paths=list_signed_paths(backend.settings),
    )
    app.state.scorer = Scorer(backend)
    app.state.stream_limiter = StreamLimiter(
        backend.settings, on_reject=partial(backend.telemetry.count_overload, "streams_full")
    )
    for module in modules:
        app.include_router(module.router)
        documented = [
            route for route in module.router.routes if isinstance(route, APIRoute) and route.include_in_schema
        ]
        backend.telemetry.register_routes(
            (route.path_format, method) for route in documented for method in route.methods or ()
        )
    for kind in (LabelwatchError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _handle_error)
    # The middleware added last is the outermost.
    app.add_middleware(score.ScoreFastPath)
    app.state.body_budget = BodyBudget(backend.settings.max_pending_body_bytes)
    app.add_middleware(
        AccessControl,
        backend=backend,
        authenticator=app.state.authenticator,
        access_table=app.state.access_table,
        body_budget=app.state.body_budget,
    )
    if backend.settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=backend.settings.origins,
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "If-Match", "X-API-Key", REQUEST_ID_HEADER],
            expose_headers=EXPOSED_HEADERS,
        )
    app.add_middleware(RequestContext, backend=backend)
    _build_routes(app)
    return app


def _get_operation_id(route: APIRoute) -> str:
    return route.name


def _build_routes(app: FastAPI) -> None:
    """Makes FastAPI build its routes now. It would build each at its first request, which would wait for it.

    Building turns warnings off for all threads and restores the filters after it: two apps in two threads would restore
    each other's.
    """
    unmatched_scope = {"type": "http", "method": "GET", "path": "", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(unmatched_scope)


async def _handle_error(request: Request, error: Exception) -> Response:
    return respond_to_error(error, request_id=get_request_id(request))


def _cache_openapi(app: FastAPI) -> None:
    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = docs.build_openapi(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI's documentation does it
