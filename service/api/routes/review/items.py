"""The review queue over REST: its items, worst first, and claims on them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.access.reviewers import resolve_viewer
from service.api.backend import Backend
from service.api.dependencies import BackendDep, CallerDep, DatasetPath, DatasetQuery, reject_unknown_parameters
from service.api.http.problems import NotFoundError, NotReadyError
from service.api.http.threads import run_in_thread
from service.contracts import MAX_BATCH_CHARS, DatasetName, SuspectKind, Verdict
from service.review.items import ReviewItem
from service.review.queue.filters import MAX_PAGE_SIZE, QueueFilter
from service.review.queue.similar import MAX_SIMILAR_ITEMS, SimilarItems
from service.review.queue.word_search import MAX_SEARCH_CHARS

router = APIRouter(tags=["review"])

SentenceIdPath = Annotated[
    str, Path(min_length=1, max_length=512, description="Id of the sentence", examples=["doc-7-3"])
]

ViewerQuery = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=128,
        description="The reviewer who looks: their own decisions are shown, and open items that they have decided are left out. "
        "Only an admin may name another than the key's own",
    ),
]


class ReviewPage(BaseModel):
    items: list[ReviewItem]
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")


@router.get(
    "/v1/review", summary="The queue", response_model=ReviewPage, dependencies=[Depends(reject_unknown_parameters)]
)
async def review(
    backend: BackendDep,
    caller: CallerDep,
    *,
    dataset: DatasetQuery = None,
    given: Annotated[
        str | None, Query(max_length=512, description="Given label of a doubtful word, in full or by its type")
    ] = None,
    suggested: Annotated[
        str | None, Query(max_length=512, description="Suggested label of a doubtful word, in full or by its type")
    ] = None,
    annotator: Annotated[str | None, Query(max_length=512, description="Name of the annotator")] = None,
    batch: Annotated[
        str | None, Query(max_length=MAX_BATCH_CHARS, description="The delivery that the sentence is part of")
    ] = None,
    kind: Annotated[SuspectKind | None, Query(description="Kind of suspect")] = None,
    state: Annotated[
        Literal["open", "adjudication", "decided", "closed", "all"],
        Query(
            description="`adjudication`: it has all its decisions, and they differ. `closed`: annotated again and no "
            "longer doubtful, or deleted"
        ),
    ] = "open",
    reviewer: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            description="The reviewer who asks: leaves out items that others have claimed, and otherwise is like `viewer`. "
            "It does not select by decision",
        ),
    ] = None,
    viewer: ViewerQuery = None,
    q: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=MAX_SEARCH_CHARS,
            description="Words of the sentence: all of them, in any order. A phrase in quotes, the beginning of a word with `*`",
            examples=['"Real Madrid" play*'],
        ),
    ] = None,
    verdict: Annotated[
        Verdict | None, Query(description="Verdict of a decision in force; with `state` `decided` or `all`")
    ] = None,
    decided_by: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            description="Reviewer of a decision in force; with `verdict`, of the same decision",
        ),
    ] = None,
    model: Annotated[
        str | None, Query(max_length=512, description="Name of the model that judged the sentence")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 50,
    after: Annotated[str | None, Query(max_length=4096, description="`next` of the previous page")] = None,
) -> Response:
    """Items, worst first (`rank` ascending). Use `after` for the next page."""
    reviewer = resolve_viewer(caller, reviewer, field="reviewer")
    viewer = resolve_viewer(caller, viewer, field="viewer")
    queue_filter = QueueFilter(
        dataset=dataset,
        datasets=None if dataset is not None else caller.listed_datasets,
        given=given,
        suggested=suggested,
        annotator=annotator,
        batch=batch,
        kind=kind,
        state=state,
        reviewer=reviewer,
        viewer=viewer,
        q=q,
        verdict=verdict,
        decided_by=decided_by,
        model=model,
    )
    page = await run_in_thread(backend.queue.get_page, queue_filter, limit=limit, after=after)
    return to_json_response(ReviewPage.model_construct(items=list(page.items), next=page.next))


@router.get(
    "/v1/review/similar",
    summary="Similar items",
    response_model=SimilarItems,
    dependencies=[Depends(reject_unknown_parameters)],
)
async def similar(
    backend: BackendDep,
    *,
    dataset: Annotated[DatasetName, Query(description="The dataset of the item")],
    sentence_id: Annotated[str, Query(alias="id", min_length=1, max_length=512, description="Id of the sentence")],
    limit: Annotated[int, Query(ge=1, le=MAX_SIMILAR_ITEMS, description="Items per list")] = 10,
) -> Response:
    """Other open items of the dataset with the same words as those in doubt, or with the same given and suggested type."""
    found = await run_in_thread(backend.queue.find_similar, dataset, sentence_id, limit=limit)
    if found is None:
        raise _build_missing_item_error(backend, dataset, sentence_id)
    return to_json_response(found)


@router.get("/v1/review/{dataset}/{id:path}", summary="One item", response_model=ReviewItem)
async def item(
    dataset: DatasetPath,
    id: SentenceIdPath,  # noqa: A002 - as the messages call it
    backend: BackendDep,
    caller: CallerDep,
    viewer: ViewerQuery = None,
) -> Response:
    """The item of a sentence, in any state. While it is open, only the decision of `viewer` is shown."""
    viewer = resolve_viewer(caller, viewer, field="viewer")
    return to_json_response(await require_item(backend, dataset, id, viewer=viewer))


async def require_item(
    backend: Backend,
    dataset: str,
    id: str,  # noqa: A002 - as above
    *,
    viewer: str | None = None,
    location: str | None = None,
) -> ReviewItem:
    """The item; raises NotFoundError or NotReadyError without one. `location` is the path of the message in the body."""
    item = await run_in_thread(backend.queue.get_item, dataset, id, viewer=viewer)
    if item is None:
        raise _build_missing_item_error(backend, dataset, id, location=location)
    return item


def _build_missing_item_error(
    backend: Backend, dataset: str, sentence_id: str, *, location: str | None = None
) -> NotFoundError | NotReadyError:
    if not backend.projector.caught_up:
        return NotReadyError("the review queue is still being built: try again in a moment")
    return NotFoundError(
        f"{dataset}/{sentence_id} is not in the review queue: it holds only sentences that were sent to review",
        field=f"{location}.id" if location else "id",
    )


def to_json_response(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), media_type="application/json")
