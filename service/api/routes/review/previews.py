"""The preview of decisions about many items over REST."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.responses import Response

from service.api.access.reviewers import resolve_reviewer
from service.api.backend import Backend
from service.api.dependencies import BackendDep, CallerDep
from service.api.http.bodies import parse_message, read_json_object
from service.api.http.problems import NotReadyError, TooLargeError
from service.api.http.request_schemas import build_inline_schema
from service.api.http.threads import run_in_thread
from service.contracts import DatasetName, SuspectKind, Verdict
from service.errors import InvalidInput
from service.review.bulk import (
    BulkAction,
    BulkPreview,
    BulkScope,
    LeftOut,
    PlannedDecision,
    describe_missing_item,
    leave_out,
    plan_decision,
)
from service.review.items import ReviewItem
from service.review.queue.filters import MAX_PAGE_SIZE, QueueFilter
from service.review.queue.word_search import MAX_SEARCH_CHARS

router = APIRouter(tags=["review"])

LabelText = Annotated[str, Field(max_length=512)]
ReviewerName = Annotated[str, Field(min_length=1, max_length=128)]


class BulkFilter(BaseModel):
    """The items that `GET /v1/review` returns with these parameters."""

    dataset: DatasetName | None = None
    given: LabelText | None = None
    suggested: LabelText | None = None
    annotator: LabelText | None = None
    batch: LabelText | None = None
    kind: SuspectKind | None = None
    state: Literal["open", "adjudication", "decided", "closed", "all"] = "open"
    q: Annotated[str, Field(min_length=1, max_length=MAX_SEARCH_CHARS)] | None = None
    verdict: Verdict | None = None
    decided_by: ReviewerName | None = None
    model: LabelText | None = None


class BulkItem(BaseModel):
    """An item of a selection. `revision`: the one that the reviewer saw; the item is left out if it has another."""

    dataset: DatasetName = "default"
    id: StrictStr = Field(min_length=1, max_length=512)
    revision: StrictInt | None = None


class BulkRequest(BaseModel):
    """What to decide, about the `items` of a selection or about the items of a `filter`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"reviewer": "anna", "action": "accept", "filter": {"dataset": "news", "given": "LOC"}},
                {"reviewer": "anna", "action": "ok", "items": [{"dataset": "news", "id": "doc-7-3"}]},
            ]
        }
    )

    reviewer: ReviewerName | None = Field(default=None, description="As in a decision: the name of the key")
    action: BulkAction = Field(
        description="`accept`: all doubts are right, and the suggested labels become the correction. "
        "`ok`: the given labels are right. `unsure`"
    )
    items: list[BulkItem] | None = None
    filter: BulkFilter | None = None
    limit: int = Field(default=MAX_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE, description="Items per page of a filter")
    after: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None, description="`next` of the previous page of a filter"
    )


def _build_preview_schema() -> dict[str, Any]:
    """Either the items or the filter."""
    schema = build_inline_schema(BulkRequest)
    for name in ("items", "filter"):
        schema["properties"][name] = schema["properties"][name]["anyOf"][0]  # null is the same as left out
    return schema | {"oneOf": [{"required": ["items"]}, {"required": ["filter"]}]}


@router.post(
    "/v1/decisions/preview",
    summary="Preview decisions about many items",
    response_model=BulkPreview,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _build_preview_schema()}},
        }
    },
)
async def preview(request: Request, backend: BackendDep, caller: CallerDep) -> Response:
    """The decision that the action would make about each item, and the items that it leaves out, with the reason.

    Nothing is written. Send the decisions in `planned` to `POST /v1/decisions` with `"partial": true` to apply them, and
    the same ones with `"withdrawn": true` to undo them. A filter is read page by page: send the request again with
    `after`.
    """
    body = parse_message(BulkRequest, await read_json_object(request))
    reviewer = resolve_reviewer(caller, body.reviewer).name
    if (body.items is None) == (body.filter is None):
        raise InvalidInput("give the items of a selection, or a filter", field="items")
    if body.items is not None and len(body.items) > backend.settings.max_sentences:
        limit = backend.settings.max_sentences
        raise TooLargeError(f"{len(body.items):,} items, the limit is {limit:,}: send several requests", field="items")
    if not backend.projector.caught_up:
        raise NotReadyError("the review queue is still being built: try again in a moment")
    for index, item in enumerate(body.items or ()):
        caller.check_dataset_of(item, field=f"items.{index}.dataset")
    if body.filter is None:
        found = await run_in_thread(_plan_items, backend, body, reviewer)
    else:
        if body.filter.dataset is not None:
            caller.check_dataset(body.filter.dataset, field="filter.dataset")
        datasets = None if body.filter.dataset is not None else caller.listed_datasets
        queue_filter = QueueFilter(**body.filter.model_dump(), datasets=datasets, viewer=reviewer)
        found = await run_in_thread(_plan_filter, backend, body, queue_filter, reviewer)
    return Response(found.model_dump_json(exclude_none=True), media_type="application/json")


def _plan_items(backend: Backend, body: BulkRequest, reviewer: str) -> BulkPreview:
    results: list[PlannedDecision | LeftOut] = []
    named = {(item.dataset, item.id): item for item in body.items or ()}
    for (dataset, sentence_id), selected in named.items():
        item = backend.queue.get_item(dataset, sentence_id, viewer=reviewer)
        if item is None:
            results.append(describe_missing_item(dataset, sentence_id))
        elif selected.revision not in (None, item.revision):
            results.append(leave_out(item, "changed", "it was annotated again: look at it again"))
        else:
            results.append(_plan(backend, item, body.action, BulkScope(named=True), reviewer))
    return _build_preview(body, results, total=len(named))


def _plan_filter(backend: Backend, body: BulkRequest, queue_filter: QueueFilter, reviewer: str) -> BulkPreview:
    scope = BulkScope(named=False, given=queue_filter.given, suggested=queue_filter.suggested, kind=queue_filter.kind)
    page = backend.queue.get_page(queue_filter, limit=body.limit, after=body.after)
    results = [_plan(backend, item, body.action, scope, reviewer) for item in page.items]
    total = backend.queue.count_matching(queue_filter)
    return _build_preview(body, results, total=total, next_cursor=page.next)


def _plan(
    backend: Backend, item: ReviewItem, action: BulkAction, scope: BulkScope, reviewer: str
) -> PlannedDecision | LeftOut:
    label_map = backend.state_view.get_judge(item.dataset).label_map
    return plan_decision(item, action, scope, reviewer=reviewer, label_map=label_map)


def _build_preview(
    body: BulkRequest, results: list[PlannedDecision | LeftOut], *, total: int, next_cursor: str | None = None
) -> BulkPreview:
    return BulkPreview(
        action=body.action,
        total=total,
        planned=tuple(result for result in results if isinstance(result, PlannedDecision)),
        left_out=tuple(result for result in results if isinstance(result, LeftOut)),
        next=next_cursor,
    )
