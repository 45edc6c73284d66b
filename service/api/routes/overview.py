"""What the queue and the decisions add up to, for the console."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from service.api.backend import Backend, provide_backend
from service.api.http.bodies import run_in_thread
from service.api.routes.review import reject_unknown_parameters
from service.contracts import DatasetName
from service.review.queue.overview import Overview

router = APIRouter(tags=["review"])


DatasetQuery = Annotated[DatasetName | None, Query(description="Only of this dataset; recall is told of one only")]


@router.get(
    "/v1/overview",
    summary="The queue in numbers",
    response_model=Overview,
    dependencies=[Depends(reject_unknown_parameters)],
)
async def overview(backend: Annotated[Backend, Depends(provide_backend)], dataset: DatasetQuery = None) -> Overview:
    """Days, scores, confusions and annotators of the queue, reviewers' precision, and an estimate of the recall."""
    return await run_in_thread(backend.queue.build_overview, dataset)
