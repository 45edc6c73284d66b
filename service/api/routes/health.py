"""Whether the process is alive, whether it is ready, and its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from service.api.backend import Backend, ScoringBackend
from service.api.dependencies import BackendDep
from service.api.http.threads import run_in_thread
from service.datasets.waiting import explain_waiting
from service.judging.misfit import describe_misfits
from service.telemetry.readiness import Readiness, merge_conditions
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Mapping

router = APIRouter(tags=["service"])


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


def get_conditions(backend: Backend) -> dict[str, str]:
    """The API's own conditions, joined with those of the process."""
    return merge_conditions(get_scoring_conditions(backend), backend.conditions())


def get_scoring_conditions(backend: ScoringBackend) -> dict[str, str]:
    """What must be read before `POST /v1/score` is answered."""
    return {
        "datasets": "" if backend.state_view.caught_up else "dataset settings and statistics are still being read",
        "keys": _describe_unread_keys(backend),
        "draining": "the service is stopping" if backend.draining.is_set() else "",
    }


def get_degraded(backend: Backend) -> dict[str, str]:
    """Without a broker the API still scores with the last thresholds, so these do not make it unready."""
    own = {
        "broker": backend.state_view.broker_error,
        "state": backend.state_view.state_error,
        "model_fit": describe_misfits(backend.state_view.list_misfits()),
        "waiting": "; ".join(map(explain_waiting, backend.state_view.list_waiting())),
        "review": None if backend.projector.caught_up else "the review queue is still being built",
        "settings": _describe_refused_settings(backend.state_view.refused_settings),
        "keys": backend.key_view.error or backend.key_view.describe_unreadable(),
        "audit": backend.audit_view.error,
        "webhooks": backend.unsent_webhooks.problem,
        "records": _describe_unreadable_records(backend),
    }
    return merge_conditions(own, backend.degraded())


def _describe_unread_keys(backend: ScoringBackend) -> str:
    """Nobody may enter before the keys are read, unless the settings have keys."""
    if backend.key_view.caught_up or backend.settings.known_keys:
        return ""
    return backend.key_view.error or "the keys are still being read"


def _describe_refused_settings(refused: Mapping[str, str]) -> str:
    """Stored settings that are set aside. GET /v1/datasets shows the reason of each."""
    if not refused:
        return ""
    name = min(refused)
    more = f" (and {len(refused) - 1} more datasets)" if len(refused) > 1 else ""
    return f"the stored settings of {name} can't be used, the previous ones are in force: {refused[name]}{more}"


def _describe_unreadable_records(backend: Backend) -> str:
    count, first = backend.projector.unreadable_records, backend.projector.first_unreadable
    return "" if first is None else f"the review queue leaves out {pluralize(count, 'record')}; the first: {first}"


def get_readiness(backend: Backend) -> Readiness:
    return Readiness.evaluate(get_conditions(backend), get_degraded(backend))


@router.get("/healthz", summary="Alive")
async def healthz() -> Alive:
    """Answers while the process is alive."""
    return Alive()


@router.get(
    "/readyz",
    summary="Ready",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "A condition does not hold"}},
)
async def readyz(backend: BackendDep) -> Response:
    """Whether this instance should get requests, with each condition by name."""
    readiness = get_readiness(backend)
    return JSONResponse(readiness.model_dump(), 200 if readiness.ready else 503)


@router.get(
    "/metrics",
    summary="Metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "The metrics, for Prometheus"}
    },
)
async def metrics(backend: BackendDep) -> Response:
    """All metrics in the Prometheus text format."""
    content, media_type = await run_in_thread(backend.telemetry.render_exposition)
    return Response(content, media_type=media_type)
