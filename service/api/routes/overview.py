"""Counts of the queue and its decisions over REST, for the console."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from service.api.dependencies import BackendDep, DatasetQuery, reject_unknown_parameters
from service.api.http.threads import run_in_thread
from service.review.queue.overview import Overview

router = APIRouter(tags=["review"])


@router.get(
    "/v1/overview",
    summary="The queue in numbers",
    response_model=Overview,
    dependencies=[Depends(reject_unknown_parameters)],
)
async def overview(backend: BackendDep, dataset: DatasetQuery = None) -> Overview:
    """Counts by day, score, label pair and annotator, and the precision of the flags. With `dataset`, also the recall."""
    return await run_in_thread(backend.queue.build_overview, dataset)
