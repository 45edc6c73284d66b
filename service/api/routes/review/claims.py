"""Claims over REST: the next item for a reviewer, and claims on a certain item."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field, StrictStr
from starlette.responses import Response

from service.api.access.reviewers import resolve_reviewer
from service.api.backend import get_request_id
from service.api.claims import append_claims, claim_item, claim_next
from service.api.dependencies import BackendDep, CallerDep, DatasetPath
from service.api.http.bodies import parse_message, read_json_object
from service.api.http.problems import NotReadyError
from service.api.routes.review.items import SentenceIdPath, require_item, to_json_response
from service.contracts import Claim, DatasetName, SuspectKind
from service.errors import ConflictError
from service.review.items import ReviewItem
from service.review.queue.filters import QueueFilter
from service.review.queue.word_search import MAX_SEARCH_CHARS

router = APIRouter(tags=["review"])

DEFAULT_CLAIM_MINUTES = 3.0
MIN_CLAIM_MINUTES = 0.1
MAX_CLAIM_MINUTES = 24 * 60.0

ReviewerName = Annotated[
    StrictStr | None, Field(min_length=1, max_length=128, description="The name of the key, if left out")
]
Minutes = Annotated[float, Field(ge=MIN_CLAIM_MINUTES, le=MAX_CLAIM_MINUTES)]
FilterText = Annotated[StrictStr | None, Field(max_length=512)]


class ClaimRequest(BaseModel):
    """The reviewer who works on the item, and for how many minutes other reviewers should skip it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reviewer": "anna", "minutes": 3}]})

    reviewer: ReviewerName = None
    minutes: Minutes = DEFAULT_CLAIM_MINUTES


class ClaimResponse(Claim):
    confirmed: bool = Field(
        default=True,
        description="False if the queue is behind and does not show the claim yet: another reviewer may have been first",
    )


class ItemName(BaseModel):
    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512, description="Id of the sentence")


class NextRequest(BaseModel):
    """The reviewer who asks, and filters as in `GET /v1/review`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reviewer": "anna", "dataset": "default"}]})

    reviewer: ReviewerName = None
    minutes: Minutes = DEFAULT_CLAIM_MINUTES
    after: ItemName | None = Field(
        default=None,
        description="The item that the reviewer leaves: its claim ends, and the next item comes after it in the queue; "
        "from the first on again, where none does",
    )
    state: Literal["open", "adjudication"] = "open"
    dataset: DatasetName | None = None
    given: FilterText = None
    suggested: FilterText = None
    annotator: FilterText = None
    kind: SuspectKind | None = None
    batch: FilterText = None
    model: FilterText = None
    q: StrictStr | None = Field(default=None, min_length=1, max_length=MAX_SEARCH_CHARS)


def _build_next_schema() -> dict[str, Any]:
    """The schema of the body, without references: the document has no place for those of a single request."""
    schema = NextRequest.model_json_schema()
    definitions = schema.pop("$defs")
    schema["properties"]["after"]["anyOf"][0] = definitions[ItemName.__name__]
    return schema


class NextItem(BaseModel):
    item: ReviewItem | None = Field(description="The item, claimed for the reviewer; null: nothing is free")
    claimed_until: datetime | None = None
    confirmed: bool = Field(
        default=True,
        description="False if the queue is behind and does not show the claim yet: another reviewer may have been first",
    )


@router.post(
    "/v1/review/next",
    summary="The next item for a reviewer",
    response_model=NextItem,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _build_next_schema()}},
        }
    },
)
async def next_item(request: Request, backend: BackendDep, caller: CallerDep) -> Response:
    """Claims the worst item that is free for the reviewer, and returns it.

    Free is an item that nobody else has open and that the reviewer has not decided. Two reviewers who ask at the same time get
    different items. Prolong the claim while the item is open, and release it afterwards; a decision releases it too.
    """
    body = parse_message(NextRequest, await read_json_object(request))
    reviewer = resolve_reviewer(caller, body.reviewer)
    if body.dataset is not None:
        caller.check_dataset(body.dataset, field="dataset")
    if body.after is not None:
        caller.check_dataset(body.after.dataset, field="after.dataset")
    if not backend.projector.caught_up:
        raise NotReadyError("the review queue is still being built: try again in a moment")
    queue_filter = QueueFilter(
        reviewer=reviewer.name,
        datasets=None if body.dataset is not None else caller.listed_datasets,
        **body.model_dump(exclude={"minutes", "after", "reviewer"}),
    )
    claimed = await claim_next(
        backend,
        queue_filter,
        reviewer,
        body.minutes,
        request_id=get_request_id(request),
        after=None if body.after is None else (body.after.dataset, body.after.id),
    )
    if claimed is None:
        return to_json_response(NextItem(item=None))
    item, outcome = claimed
    return to_json_response(
        NextItem.model_construct(item=item, claimed_until=outcome.until, confirmed=outcome.confirmed)
    )


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
async def claim(
    dataset: DatasetPath,
    id: SentenceIdPath,  # noqa: A002 - as the messages call it
    request: Request,
    backend: BackendDep,
    caller: CallerDep,
) -> ClaimResponse:
    """Other reviewers skip the item until the claim ends. Claim it again to prolong the claim; 409 if another reviewer has it.

    If several reviewers claim an item at once, the first claim in the log counts. The response waits until the queue shows it.
    """
    body = parse_message(ClaimRequest, await read_json_object(request))
    reviewer = resolve_reviewer(caller, body.reviewer)
    item = await require_item(backend, dataset, id)
    if item.claimed_by not in (None, reviewer.name):
        raise _build_claim_conflict(item.claimed_by, item.claimed_until)
    outcome = await claim_item(backend, (dataset, id), reviewer, body.minutes, request_id=get_request_id(request))
    if outcome.holder != reviewer.name:
        raise _build_claim_conflict(outcome.holder, outcome.until)
    # A prolonged claim keeps its position in the log, even if the queue is slow to show it.
    return ClaimResponse(
        dataset=dataset,
        id=id,
        reviewer=reviewer.name,
        until=outcome.until,
        recorded_by=reviewer.recorded_by,
        confirmed=outcome.confirmed or item.claimed_by == reviewer.name,
    )


def _build_claim_conflict(holder: str | None, until: datetime | None) -> ConflictError:
    return ConflictError(f"{holder!r} has it open until {until}: choose another item", field="reviewer")


@router.delete("/v1/review/{dataset}/{id:path}/claim", summary="Release an item", status_code=202)
async def let_go(
    dataset: DatasetPath,
    id: SentenceIdPath,  # noqa: A002 - as above
    request: Request,
    backend: BackendDep,
    caller: CallerDep,
    *,
    reviewer: Annotated[
        str | None,
        Query(
            min_length=1, max_length=128, description="The reviewer whose claim ends: the name of the key, if left out"
        ),
    ] = None,
) -> Claim:
    """Ends the reviewer's claim. Without a claim, nothing changes."""
    who = resolve_reviewer(caller, reviewer)
    await require_item(backend, dataset, id)
    ended_claim = Claim(dataset=dataset, id=id, reviewer=who.name, recorded_by=who.recorded_by)
    await append_claims(backend, [ended_claim], get_request_id(request))
    return ended_claim
