"""The batches of a dataset: how many sentences each has, and whether it is good enough."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field

from service.api.backend import Backend
from service.api.dependencies import BackendDep, DatasetPath, reject_unknown_parameters
from service.api.http.problems import NotFoundError
from service.api.http.threads import run_in_thread
from service.contracts import MAX_BATCH_CHARS
from service.datasets.registry import check_dataset_exists
from service.review.queue.figures.batches import BatchReport, build_batch_report
from service.statistics.batches import BatchCounts

router = APIRouter(tags=["datasets"])

MAX_LISTED_BATCHES = 100

BatchPath = Annotated[
    str, Path(min_length=1, max_length=MAX_BATCH_CHARS, description="Name of the batch", examples=["7"])
]
MaxErrorRateQuery = Annotated[
    float | None,
    Query(
        gt=0,
        lt=1,
        description="The highest share of wrong sentences to accept; without it that of the dataset's settings, if any",
    ),
]


class BatchList(BaseModel):
    batches: list[BatchReport] = Field(description=f"At most {MAX_LISTED_BATCHES}, the last to arrive first")


@router.get(
    "/v1/datasets/{name}/batches",
    summary="Batches of a dataset",
    dependencies=[Depends(reject_unknown_parameters)],
)
async def batches(name: DatasetPath, backend: BackendDep, max_error_rate: MaxErrorRateQuery = None) -> BatchList:
    """The deliveries that sentences of the dataset named in `batch`, with their error rates."""
    check_dataset_exists(name, backend.state_view.list_names())
    found = sorted(
        backend.state_view.get_batches(name).batches.items(), key=lambda each: (-each[1].last_arrival_ms, each[0])
    )

    def build() -> list[BatchReport]:
        return [
            _build_report(backend, name, batch, counts, max_error_rate) for batch, counts in found[:MAX_LISTED_BATCHES]
        ]

    return BatchList(batches=await run_in_thread(build))


@router.get(
    "/v1/datasets/{name}/batches/{batch:path}",
    summary="Is this batch good enough?",
    dependencies=[Depends(reject_unknown_parameters)],
)
async def batch(
    name: DatasetPath, batch: BatchPath, backend: BackendDep, max_error_rate: MaxErrorRateQuery = None
) -> BatchReport:
    """The estimated share of wrong sentences, with a 95 % interval, and whether to accept the batch.

    The estimate rests on the decisions about its flagged sentences and its control sample. The open items of the batch are
    those of `GET /v1/review` with its name as `batch`.
    """
    check_dataset_exists(name, backend.state_view.list_names())
    counts = backend.state_view.get_batches(name).batches.get(batch)
    if counts is None:
        raise NotFoundError(f"no judged sentence of {name} names the batch {batch!r}", field="batch")
    return await run_in_thread(_build_report, backend, name, batch, counts, max_error_rate)


def _build_report(
    backend: Backend, dataset: str, batch: str, counts: BatchCounts, max_error_rate: float | None
) -> BatchReport:
    limit = backend.state_view.get_settings(dataset).max_error_rate if max_error_rate is None else max_error_rate
    outcomes = backend.queue.read_batch_outcomes(dataset, batch)
    return build_batch_report(dataset, batch, counts, outcomes, max_error_rate=limit)
