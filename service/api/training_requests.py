"""Requests to train the model of a dataset now: a record of the models topic, which a trainer takes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from service.datasets.trainings import create_request, write_request

if TYPE_CHECKING:
    from service.access.audit_log import Actor
    from service.api.backend import Backend


class RequestedTraining(BaseModel):
    dataset: str
    state: Literal["requested", "running"] = Field(description="`running`: a training of the dataset runs already")
    requested_at: datetime | None = Field(description="When it was requested; null if it was not, and runs already")
    request_id: str


async def write_training_request(backend: Backend, dataset: str, *, actor: Actor, request_id: str) -> RequestedTraining:
    """Writes a request by `actor`, unless one is kept already or a training of the dataset runs."""
    view = backend.training_view
    if any(training.dataset == dataset for training in view.list_running()):
        return RequestedTraining(dataset=dataset, state="running", requested_at=None, request_id=request_id)
    pending = view.find_request(dataset)
    if pending is None:
        pending = created = create_request(dataset)
        state = view.get_request_state(dataset)
        audits = [actor.build_message(backend.topics.audit, "training", dataset=dataset)] if backend.is_audited else []
        await backend.appender.write(
            lambda log, timeout: write_request(log, backend.topics.models, created, state, also=audits, timeout=timeout)
        )
    return RequestedTraining(
        dataset=dataset, state="requested", requested_at=pending.requested_at, request_id=request_id
    )
