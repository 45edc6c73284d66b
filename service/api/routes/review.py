"""The review queue: worst first, and who has what open."""

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
from service.contracts import Claim, SuspectKind
from service.errors import ConflictError, StreamError
from service.review.items import ReviewItem
from service.review.messages import build_claim_message
from service.review.queue.filters import MAX_PAGE_SIZE, QueueFilter

router = APIRouter(tags=["review"])

DEFAULT_CLAIM_MINUTES = 10.0
MAX_CLAIM_MINUTES = 24 * 60.0
CLAIM_TIMEOUT_S = 2.0
CLAIM_POLL_INTERVAL_S = 0.02
CLAIM_NOT_VISIBLE = "the review queue does not show the claim yet, so it was taken back: ask again in a moment"

SentenceIdPath = Annotated[str, Path(min_length=1, max_length=512, description="The sentence", examples=["doc-7-3"])]


class ReviewPage(BaseModel):
    items: list[ReviewItem]
    next: str | None = Field(description="What to give as `after` for the next page; none: this was the last")


class ClaimRequest(BaseModel):
    """Who looks at the item, and for how long others should leave it alone."""

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
        str | None, Query(max_length=512, description="Given label of a doubtful word, in full or its type")
    ] = None,
    suggested: Annotated[
        str | None, Query(max_length=512, description="Suggested label of a doubtful word, in full or its type")
    ] = None,
    annotator: Annotated[str | None, Query(max_length=512, description="Who labelled it")] = None,
    kind: Annotated[SuspectKind | None, Query(description="Kind of suspect")] = None,
    state: Annotated[
        Literal["open", "decided", "closed", "all"],
        Query(description="`closed`: annotated again with nothing to doubt, or deleted"),
    ] = "open",
    reviewer: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=128,
            description='Who is asking: leaves out what others have open. Not "decided by"',
        ),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 50,
    after: Annotated[str | None, Query(max_length=4096, description="`next` of the page before")] = None,
) -> Response:
    """Items worst first (`rank` ascending). Page on with `after`."""
    wanted = QueueFilter(
        dataset=dataset,
        given=given,
        suggested=suggested,
        annotator=annotator,
        kind=kind,
        state=state,
        reviewer=reviewer,
    )
    page = await run_in_thread(backend.queue.get_page, wanted, limit=limit, after=after)
    return _to_json_response(ReviewPage.model_construct(items=list(page.items), next=page.next))


@router.get("/v1/review/{dataset}/{id:path}", summary="One item", response_model=ReviewItem)
async def item(dataset: DatasetPath, id: SentenceIdPath, backend: BackendDep) -> Response:  # noqa: A002 - as the messages call it
    """The item of one sentence, whatever its state."""
    return _to_json_response(await require_item(backend, dataset, id))


@router.post(
    "/v1/review/{dataset}/{id:path}/claim",
    summary="Have an item open",
    status_code=202,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": ClaimRequest.model_json_schema()}},
        }
    },
)
async def claim(dataset: DatasetPath, id: SentenceIdPath, request: Request, backend: BackendDep) -> Claim:  # noqa: A002 - as above
    """Tells others that somebody looks at it. Claim it again to have it longer; 409 where another has it open.

    Of several who claim it at once, the first in the log has it: the answer comes when the queue shows who that is.
    """
    asked = parse_message(ClaimRequest, await read_json_object(request))
    found = await require_item(backend, dataset, id)
    if found.claimed_by not in (None, asked.reviewer):
        raise _build_claim_conflict(found)
    until = datetime.now(UTC) + timedelta(minutes=asked.minutes)
    made = Claim(dataset=dataset, id=id, reviewer=asked.reviewer, until=until)
    await _append_claim(backend, made, request)
    first = await _wait_for_claim(backend, made)
    if first is None and found.claimed_by == asked.reviewer:
        return made  # who had it keeps its place in the log, however late the queue shows for how long
    if first is None or first.claimed_by != asked.reviewer:
        with suppress(StreamError):  # one that can't be taken back ends by itself
            await _append_claim(backend, made.model_copy(update={"until": None}), request)
        raise NotReadyError(CLAIM_NOT_VISIBLE) if first is None else _build_claim_conflict(first)
    return made


async def _wait_for_claim(backend: Backend, own_claim: Claim) -> ReviewItem | None:
    """The item when it shows who was first: claims are read in the log's order, so whoever is seen there was.

    None where nobody is shown in time: the queue is behind, or the reviewer has let it go meanwhile.
    """
    seen: int | None = None
    ends = time.monotonic() + CLAIM_TIMEOUT_S
    while time.monotonic() < ends:
        version = backend.queue.version
        if version != seen:
            seen = version
            item = await run_in_thread(backend.queue.get_item, own_claim.dataset, own_claim.id)
            if item is not None and item.claimed_by is not None and not _is_older_claim(item, own_claim):
                return item
        await asyncio.sleep(CLAIM_POLL_INTERVAL_S)
    return None


def _is_older_claim(item: ReviewItem, own_claim: Claim) -> bool:
    """Whether what is shown is the reviewer's own claim, but not yet as it was prolonged; to a millisecond."""
    if item.claimed_by != own_claim.reviewer or item.claimed_until is None or own_claim.until is None:
        return False
    return item.claimed_until < own_claim.until - timedelta(milliseconds=1)


def _build_claim_conflict(item: ReviewItem) -> ConflictError:
    return ConflictError(
        f"{item.claimed_by!r} has it open until {item.claimed_until}: take another one", field="reviewer"
    )


@router.delete("/v1/review/{dataset}/{id:path}/claim", summary="Let an item go", status_code=202)
async def let_go(
    dataset: DatasetPath,
    id: SentenceIdPath,  # noqa: A002 - as above
    request: Request,
    backend: BackendDep,
    reviewer: Annotated[str, Query(min_length=1, max_length=128, description="Who had it open")],
) -> Claim:
    """Ends a reviewer's own claim; where there is none, nothing changes."""
    await require_item(backend, dataset, id)
    gone = Claim(dataset=dataset, id=id, reviewer=reviewer)
    await _append_claim(backend, gone, request)
    return gone


async def require_item(backend: Backend, dataset: str, id: str, *, location: str | None = None) -> ReviewItem:  # noqa: A002
    """The item, or the problem that there is none. `at`: where its name stands in the body."""
    found = await run_in_thread(backend.queue.get_item, dataset, id)
    if found is None and not backend.projector.caught_up:
        raise NotReadyError("the review queue is still being built: try again in a moment")
    if found is None:
        where = f"{location}.id" if location else "id"
        raise NotFoundError(
            f"{dataset}/{id} is not in the review queue: only sentences sent to review are", field=where
        )
    return found


async def _append_claim(backend: Backend, message: Claim, request: Request) -> None:
    output = build_claim_message(backend.topics, message, get_request_id(request))
    await backend.appender.append([output])


def _to_json_response(model: BaseModel) -> Response:
    return Response(model.model_dump_json(), media_type="application/json")
