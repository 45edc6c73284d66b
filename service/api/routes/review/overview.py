"""Counts of the queue and its decisions over REST, for the console."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime

from service.api.backend import Backend
from service.api.dependencies import BackendDep, CallerDep, DatasetQuery, reject_unknown_parameters
from service.api.http.threads import run_in_thread
from service.errors import MissingModelError
from service.review.queue.figures.facet_counts import FacetCounts
from service.review.queue.figures.overview import Overview
from service.review.queue.figures.priority_bins import add_sentences
from service.review.queue.figures.progress import Progress

router = APIRouter(tags=["review"])


@router.get(
    "/v1/overview",
    summary="The queue in numbers",
    response_model=Overview,
    dependencies=[Depends(reject_unknown_parameters)],
)
async def overview(backend: BackendDep, dataset: DatasetQuery = None) -> Overview:
    """Counts by day, score, label pair and annotator, and the precision of the flags. With `dataset`, also the recall."""
    return await run_in_thread(_build_overview, backend, dataset)


def _build_overview(backend: Backend, dataset: str | None) -> Overview:
    found = backend.queue.build_overview(dataset)
    view = backend.state_view
    names = [name for name in view.list_names() if dataset in (None, name)]
    by_dataset: list[tuple[int, ...]] = []
    for name in names:
        with suppress(MissingModelError):  # which statistics are the dataset's depends on the model
            by_dataset.append(view.get_stats(name).histogram.count_by_unit())
    sentences = [sum(counts) for counts in zip(*by_dataset, strict=True)] or [0] * len(found.priorities)
    return found.model_copy(update={"priorities": add_sentences(found.priorities, sentences)})


@router.get(
    "/v1/review/facets",
    summary="Items by value of the filters",
    response_model=FacetCounts,
    dependencies=[Depends(reject_unknown_parameters)],
)
async def facets(
    backend: BackendDep,
    dataset: DatasetQuery = None,
    state: Annotated[
        Literal["open", "adjudication", "decided", "closed", "all"], Query(description="Only items in this state")
    ] = "open",
) -> FacetCounts:
    """The types, kinds of suspects and models that `GET /v1/review` can filter by, with the number of items."""
    return await run_in_thread(backend.queue.count_facets, dataset, state)


@router.get(
    "/v1/review/progress",
    summary="Progress of the day",
    response_model=Progress,
    dependencies=[Depends(reject_unknown_parameters)],
)
async def progress(
    backend: BackendDep,
    caller: CallerDep,
    *,
    dataset: DatasetQuery = None,
    reviewer: Annotated[
        str | None,
        Query(min_length=1, max_length=128, description="Counts this reviewer's decisions; by default the key's name"),
    ] = None,
    since: Annotated[
        AwareDatetime | None,
        Query(description="Start of the reviewer's day with its time zone; by default the last midnight in UTC"),
    ] = None,
) -> Progress:
    """Decisions since a time, by the reviewer and by all, and what is left."""
    now = datetime.now(UTC)
    start = since or now.replace(hour=0, minute=0, second=0, microsecond=0)
    named = reviewer or caller.name or None
    return await run_in_thread(backend.queue.read_progress, dataset=dataset, reviewer=named, since=start, now=now)
