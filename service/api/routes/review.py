"""The review queue over REST: its items, worst first, and claims on them."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StrictStr
from starlette.responses import Response

from service.api.backend import Backend, get_request_id
from service.api.dependencies import BackendDep, DatasetPath, DatasetQuery, reject_unknown_parameters
from service.api.http.bodies import parse_message, read_json_object
from service.api.http.problems import NotFoundError, NotReadyError
from service.api.http.threads import run_in_thread
from service.contracts import Claim, DatasetName, SuspectKind, Verdict
from service.errors import ConflictError, StreamError
from service.review.items import ReviewItem
from service.review.messages import build_claim_message
from service.review.queue.filters import MAX_PAGE_SIZE, QueueFilter
from service.review.queue.similar import MAX_SIMILAR_ITEMS, SimilarItems
from service.review.queue.word_search import MAX_SEARCH_CHARS

router = APIRouter(tags=["review"])

DEFAULT_CLAIM_MINUTES = 10.0
MAX_CLAIM_MINUTES = 24 * 60.0
CLAIM_TIMEOUT_S = 2.0
CLAIM_POLL_INTERVAL_S = 0.02
CLAIM_NOT_VISIBLE = "the review queue does not show the claim yet, so the claim was withdrawn: try again in a moment"

SentenceIdPath = Annotated[
    str, Path(min_length=1, max_length=512, description="Id of the sentence", examples=["doc-7-3"])
]


class ReviewPage(BaseModel):
    items: list[ReviewItem]
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")


class ClaimRequest(BaseModel):
    """The reviewer who works on the item, and for how many minutes other reviewers should skip it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reviewer": "anna", "minutes": 10}]})

    reviewer: StrictStr = Field(min_length=1, max_length=128)
    minutes: float = Field(default=DEFAULT_CLAIM_MINUTES, gt=0, le=MAX_CLAIM_MINUTES)


@router.get(
    "/v1/review", summary="The queue", response_model=ReviewPage, dependencies=[Depends(reject_unknown_parameters)]
)
async def review(
    backend: BackendDep,
    *,
    dataset: DatasetQuery = None,
    given: Annotated[
        str | None, Query(max_length=512, description="Given label of a doubtful word, in full or by its type")
    ] = None,
    suggested: Annotated[
        str | None, Query(max_length=512, description="Suggested label of a doubtful word, in full or by its type")
    ] = None,
    annotator: Annotated[str | None, Query(max_length=512, description="Name of the annotator")] = None,
    kind: Annotated[SuspectKind | None, Query(description="Kind of suspect")] = None,
    state: Annotated[
        Literal["open", "decided", "closed", "all"],
        Query(description="`closed`: annotated again and no longer doubtful, or deleted"),
    ] = "open",
    reviewer: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            description="The reviewer who asks: leaves out items that others have claimed. It does not select by decision",
        ),
    ] = None,
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
    queue_filter = QueueFilter(
        dataset=dataset,
        given=given,
        suggested=suggested,
        annotator=annotator,
        kind=kind,
        state=state,
        reviewer=reviewer,
        q=q,
        verdict=verdict,
        decided_by=decided_by,
        model=model,
    )
    page = await run_in_thread(backend.queue.get_page, queue_filter, limit=limit, after=after)
    return _to_json_response(ReviewPage.model_construct(items=list(page.items), next=page.next))


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
    return _to_json_response(found)


@router.get("/v1/review/{dataset}/{id:path}", summary="One item", response_model=ReviewItem)
async def item(dataset: DatasetPath, id: SentenceIdPath, backend: BackendDep) -> Response:  # noqa: A002 - as the messages call it
    """The item of a sentence, in any state."""
    return _to_json_response(await require_item(backend, dataset, id))


@router.post(
    "/v1/review/{dataset}/{id:path}/claim",
    summary="Claim an item",
    status_code=202,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": ClaimRequest.model_json_schema()}},
        }
    },
)
async def claim(dataset: DatasetPath, id: SentenceIdPath, request: Request, backend: BackendDep) -> Claim:  # noqa: A002 - as above
    """Other reviewers skip the item until the claim ends. Claim it again to prolong the claim; 409 if another reviewer has it.

    If several reviewers claim an item at once, the first claim in the log counts. The response waits until the queue shows it.
    """
    body = parse_message(ClaimRequest, await read_json_object(request))
    item = await require_item(backend, dataset, id)
    if item.claimed_by not in (None, body.reviewer):
        raise _build_claim_conflict(item)
    until = datetime.now(UTC) + timedelta(minutes=body.minutes)
    own_claim = Claim(dataset=dataset, id=id, reviewer=body.reviewer, until=until)
    await _append_claim(backend, own_claim, request)
    claimed_item = await _wait_for_claim(backend, own_claim)
    if claimed_item is None and item.claimed_by == body.reviewer:
        return own_claim  # a prolonged claim keeps its position in the log, even if the queue is slow to show it
    if claimed_item is None or claimed_item.claimed_by != body.reviewer:
        with suppress(StreamError):  # a claim that can't be withdrawn ends by itself
            await _append_claim(backend, own_claim.model_copy(update={"until": None}), request)
        raise NotReadyError(CLAIM_NOT_VISIBLE) if claimed_item is None else _build_claim_conflict(claimed_item)
    return own_claim


async def _wait_for_claim(backend: Backend, own_claim: Claim) -> ReviewItem | None:
    """The item once it shows a claim. The queue reads claims in the order of the log, so the claim it shows was the first.

    None if it shows none in time: the queue is behind, or the reviewer has released the item.
    """
    read_version: int | None = None
    deadline = time.monotonic() + CLAIM_TIMEOUT_S
    while time.monotonic() < deadline:
        version = backend.queue.version
        if version != read_version:
            read_version = version
            item = await run_in_thread(backend.queue.get_item, own_claim.dataset, own_claim.id)
            if item is not None and item.claimed_by is not None and not _is_older_claim(item, own_claim):
                return item
        await asyncio.sleep(CLAIM_POLL_INTERVAL_S)
    return None


def _is_older_claim(item: ReviewItem, own_claim: Claim) -> bool:
    """Whether the item shows an earlier claim of the same reviewer, which is not prolonged yet. Times have 1 ms tolerance."""
    if item.claimed_by != own_claim.reviewer or item.claimed_until is None or own_claim.until is None:
        return False
    return item.claimed_until < own_claim.until - timedelta(milliseconds=1)


def _build_claim_conflict(item: ReviewItem) -> ConflictError:
    return ConflictError(
        f"{item.claimed_by!r} has it open until {item.claimed_until}: choose another item", field="reviewer"
    )


@router.delete("/v1/review/{dataset}/{id:path}/claim", summary="Release an item", status_code=202)
async def let_go(
    dataset: DatasetPath,
    id: SentenceIdPath,  # noqa: A002 - as above
    request: Request,
    backend: BackendDep,
    reviewer: Annotated[str, Query(min_length=1, max_length=128, description="The reviewer whose claim ends")],
) -> Claim:
    """Ends the reviewer's claim. Without a claim, nothing changes."""
    await require_item(backend, dataset, id)
    ended_claim = Claim(dataset=dataset, id=id, reviewer=reviewer)
    await _append_claim(backend, ended_claim, request)
    return ended_claim


async def require_item(backend: Backend, dataset: str, id: str, *, location: str | None = None) -> ReviewItem:  # noqa: A002
    """The item; raises NotFoundError or NotReadyError without one. `location` is the path of the message in the body."""
    item = await run_in_thread(backend.queue.get_item, dataset, id)
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


async def _append_claim(backend: Backend, claim: Claim, request: Request) -> None:
    message = build_claim_message(backend.topics, claim, get_request_id(request))
    await backend.appender.append([message])


def _to_json_response(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), media_type="application/json")
