"""The annotators of a dataset over REST: figures of all and of one, and the items of one.

A key of the role `annotator` sees the annotator of its own name only.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from service.api.access.caller import Caller
from service.api.backend import Backend
from service.api.dependencies import BackendDep, CallerDep, DatasetPath, reject_unknown_parameters
from service.api.http.problems import ForbiddenError, NotFoundError
from service.api.http.threads import run_in_thread
from service.datasets.registry import check_dataset_exists
from service.review.annotator_figures import DatasetAnnotators, build_dataset_annotators
from service.review.items import ItemState
from service.review.queue.filters import MAX_PAGE_SIZE
from service.review.queue.own_items import OwnItemPage, list_own_items

router = APIRouter(tags=["annotators"])

AnnotatorPath = Annotated[
    str, Path(min_length=1, max_length=256, description="Name of the annotator", examples=["kim"])
]


@router.get("/v1/datasets/{name}/annotators", summary="Annotators of a dataset")
async def dataset_annotators(name: DatasetPath, backend: BackendDep, caller: CallerDep) -> DatasetAnnotators:
    """Sentences, confirmed errors, and agreement with the model, by annotator. A key of the role `annotator` gets its own.

    `meaning` says what agreement measures. Where the model is not good enough, `not_shown` says why it is left out.
    """
    only = caller.name if caller.role == "annotator" else None
    return await run_in_thread(_build_figures, backend, name, only)


@router.get(
    "/v1/datasets/{name}/annotators/{annotator:path}/items",
    summary="Items of an annotator",
    dependencies=[Depends(reject_unknown_parameters)],
)
async def annotator_items(
    name: DatasetPath,
    annotator: AnnotatorPath,
    backend: BackendDep,
    caller: CallerDep,
    *,
    state: Annotated[
        ItemState,
        Query(
            description="`open` and `adjudication`: in doubt; `decided`: by reviewers; `closed`: annotated again, or deleted"
        ),
    ] = "open",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 50,
    after: Annotated[str | None, Query(max_length=2048, description="`next` of the previous page")] = None,
) -> OwnItemPage:
    """The annotator's sentences that are in doubt, or that reviewers decided, with their corrections and notes."""
    _check_own(caller, annotator)
    check_dataset_exists(name, backend.state_view.list_names())
    return await run_in_thread(
        lambda: list_own_items(backend.queue, name, annotator, state=state, limit=limit, after=after)
    )


@router.get("/v1/datasets/{name}/annotators/{annotator:path}", summary="One annotator")
async def dataset_annotator(
    name: DatasetPath, annotator: AnnotatorPath, backend: BackendDep, caller: CallerDep
) -> DatasetAnnotators:
    """The figures of one annotator. The interval is the same as in the list of all."""
    _check_own(caller, annotator)
    figures = await run_in_thread(_build_figures, backend, name, annotator)
    if not figures.annotators:
        raise NotFoundError(f"dataset {name} has no sentences of an annotator {annotator!r}", field="annotator")
    return figures


def _build_figures(backend: Backend, dataset: str, only: str | None) -> DatasetAnnotators:
    view, min_f1 = backend.state_view, backend.settings.annotator_min_f1
    check_dataset_exists(dataset, view.list_names())
    return build_dataset_annotators(view, backend.queue, dataset, min_f1=min_f1, only=only)


def _check_own(caller: Caller, annotator: str) -> None:
    if caller.role == "annotator" and annotator != caller.name:
        raise ForbiddenError(
            f"{caller.describe()} has the role annotator: it sees what concerns the annotator {caller.name!r} only",
            field="annotator",
        )
