"""Whether the service lives, whether it can do its work, and its metrics."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from service.api.backend import Backend, provide_backend
from service.api.http.bodies import run_in_thread
from service.telemetry.conditions import merge_conditions

router = APIRouter(tags=["service"])

BackendDep = Annotated[Backend, Depends(provide_backend)]


class Alive(BaseModel):
    status: Literal["ok"] = "ok"


class Readiness(BaseModel):
    """Ready where every condition holds. What is degraded is done without for now."""

    ready: bool
    conditions: dict[str, str] = Field(description="By name why it does not hold; empty: it holds")
    degraded: dict[str, str] = Field(description="What does not work at the moment, and why; the rest does")


def get_conditions(backend: Backend) -> dict[str, str]:
    """Of the API's role: datasets and state read once, nothing about to stop, and what the process itself watches."""
    own = {
        "datasets": "" if backend.state_view.caught_up else "dataset settings and statistics are still being read",
        "draining": "the service is about to stop" if backend.draining.is_set() else "",
    }
    return merge_conditions(own, backend.conditions())


def get_degraded(backend: Backend) -> dict[str, str]:
    """Without the broker sentences are scored with the last thresholds; that must not take the API out of service."""
    own = {
        "broker": backend.state_view.broker_error,
        "state": backend.state_view.state_error,
        "review": None if backend.projector.caught_up else "the review queue is still being built",
    }
    return {name: why for name, why in merge_conditions(own, backend.degraded()).items() if why}


def get_readiness(backend: Backend) -> Readiness:
    conditions = get_conditions(backend)
    return Readiness(ready=not any(conditions.values()), conditions=conditions, degraded=get_degraded(backend))


@router.get("/healthz", summary="Alive")
async def healthz() -> Alive:
    """Answers as long as the process does."""
    return Alive()


@router.get(
    "/readyz",
    summary="Ready",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "A condition does not hold"}},
)
async def readyz(backend: BackendDep) -> Response:
    """Whether requests should be sent here, with each condition by name."""
    found = get_readiness(backend)
    return JSONResponse(found.model_dump(), 200 if found.ready else 503)


@router.get(
    "/metrics",
    summary="Metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "For Prometheus"}},
)
async def metrics(backend: BackendDep) -> Response:
    """All metrics in Prometheus' text format."""
    content, kind = await run_in_thread(backend.telemetry.render_exposition)
    return Response(content, media_type=kind)
