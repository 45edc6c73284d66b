"""Decisions of reviewers over REST, and the preview of decisions about many items."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr
from starlette.responses import Response

from service.api.access.actor import get_actor
from service.api.access.caller import Caller
from service.api.access.reviewers import resolve_reviewer
from service.api.backend import Backend, get_request_id
from service.api.dependencies import BackendDep, CallerDep
from service.api.http.bodies import (
    list_messages,
    parse_message,
    pop_flag,
    read_json_object,
    with_location,
)
from service.api.http.problems import NotFoundError, NotReadyError, TooLargeError
from service.api.http.request_schemas import build_inline_schema
from service.api.http.threads import run_in_thread
from service.api.routes.review.items import require_item
from service.api.withdrawals import WithdrawalCheck
from service.contracts import DatasetName, Decision, SuspectKind, Verdict
from service.contracts.access.audit import AuditAction
from service.contracts.validation import join_path
from service.errors import ConflictError, InvalidInput
from service.labels import LabelMap
from service.review.bulk import (
    BulkAction,
    BulkPreview,
    BulkScope,
    LeftOut,
    PlannedDecision,
    describe_missing_item,
    find_obstacle,
    leave_out,
    plan_decision,
)
from service.review.decisions import check_decision
from service.review.items import ReviewItem
from service.review.messages import build_decision_message
from service.review.queue.filters import MAX_PAGE_SIZE, QueueFilter
from service.review.queue.word_search import MAX_SEARCH_CHARS
from service.review.settlement import check_reviewer

router = APIRouter(tags=["review"])

EXAMPLE = {
    "dataset": "default",
    "id": "doc-7-3",
    "revision": 0,
    "reviewer": "anna",
    "verdict": "error",
    "labels": ["B-PER", "O"],
}


class AcceptedDecisions(BaseModel):
    accepted: int = Field(description="Number of decisions written to the log; the queue follows in a moment")
    left_out: list[LeftOut] | None = Field(
        default=None, description="Only with `partial`: items whose decision is not written, and why"
    )
    request_id: str


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


def _build_body_schema() -> dict[str, Any]:
    decision = Decision.model_json_schema(ref_template="#/components/schemas/{model}")
    decision.pop("$defs", None)
    decision["required"] = [name for name in decision["required"] if name != "reviewer"]  # a key has a name
    decision_list = {
        "type": "object",
        "required": ["decisions"],
        "properties": {
            "decisions": {"type": "array", "minItems": 1, "items": decision},
            "partial": {
                "type": "boolean",
                "default": False,
                "description": "Leave out decisions that can't be written, and write the others",
            },
        },
    }
    return {"anyOf": [decision, decision_list]}


@router.post(
    "/v1/decisions",
    summary="Decide",
    status_code=202,
    response_model_exclude_none=True,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": _build_body_schema(),
                    "examples": {
                        "one": {"value": EXAMPLE},
                        "several": {"value": {"decisions": [EXAMPLE, {**EXAMPLE, "id": "doc-7-4", "verdict": "ok"}]}},
                    },
                }
            },
        }
    },
)
async def decide(request: Request, backend: BackendDep, caller: CallerDep) -> AcceptedDecisions:
    """Send one decision, or several as `{"decisions": […]}`: all of them are written, or none.

    Each decision is checked against its item, and corrected labels against the labels of the dataset. `revision` defaults to
    the revision in the queue, `decided_at` to the current time. `"withdrawn": true` withdraws the reviewer's decision; 404 if
    there is none. A decision ends the reviewer's claim on the item.

    409 if the item has all the decisions that it needs: `"adjudication": true` settles it where they differ, by a reviewer
    who is not one of them.

    `reviewer` is the name of the key, and may be left out. Only an admin may name another reviewer: then `recorded_by` says who it was.

    With `"partial": true` beside `decisions`, decisions that do not fit their item any more are left out and named in the
    answer. So are decisions about items that another reviewer has decided or claimed. The same request may be sent again.
    """
    body = await read_json_object(request)
    partial = pop_flag(body, "partial") if "decisions" in body else False
    messages, audits = [], []
    left_out: list[LeftOut] = []
    withdrawals = WithdrawalCheck(backend)
    for location, fields in list_messages(body, "decisions", backend.settings.max_sentences):
        decision = _parse_decision(fields, caller, location)
        caller.check_dataset(decision.dataset, field=join_path((location, "dataset")))
        try:
            item = await require_item(
                backend, decision.dataset, decision.id, viewer=decision.reviewer, location=location
            )
        except NotFoundError:
            if not partial:
                raise
            left_out.append(describe_missing_item(decision.dataset, decision.id))
            continue
        if "revision" not in decision.model_fields_set:
            decision = decision.model_copy(update={"revision": item.revision})
        label_map = backend.state_view.get_judge(decision.dataset).label_map
        obstacle = find_obstacle(item, decision, label_map=label_map) if partial else None
        if obstacle is not None:
            left_out.append(obstacle)
            continue
        decision = _check_decision(item, decision, caller, location, label_map=label_map)
        nothing_made = await withdrawals.check(decision)
        if nothing_made is not None and not partial:
            raise NotFoundError(nothing_made, field=join_path((location, "withdrawn")))
        if nothing_made is not None:
            left_out.append(leave_out(item, "missing", nothing_made))
            continue
        messages.append(build_decision_message(backend.topics, decision, get_request_id(request)))
        if backend.is_audited:
            action: AuditAction = "withdrawal" if decision.withdrawn else "decision"
            audit = get_actor(request).build_message(
                backend.topics.audit,
                action,
                dataset=decision.dataset,
                subject=decision.id,
                verdict=decision.verdict,
                reviewer=decision.reviewer,
                revision=decision.revision,
                **({"adjudication": True} if decision.adjudication else {}),
            )
            audits.append(audit)
    if messages:
        withdrawals.note_sent()
        await backend.appender.append([*messages, *audits])
    return AcceptedDecisions(
        accepted=len(messages), left_out=left_out if partial else None, request_id=get_request_id(request)
    )


def _check_decision(
    item: ReviewItem, decision: Decision, caller: Caller, location: str | None, *, label_map: LabelMap
) -> Decision:
    """The decision as it is recorded."""
    try:
        decision = check_decision(item, decision, label_map=label_map)
        check_reviewer(item, decision, may_adjudicate_own=caller.kind != "anybody" and caller.role == "admin")
    except ConflictError as error:
        if location is None:
            raise
        raise ConflictError(f"{location}: {error}", field=f"{location}.{error.field}") from error
    except InvalidInput as error:
        if location is None:
            raise
        raise with_location(error, location) from error
    return decision


def _build_preview_schema() -> dict[str, Any]:
    """Either the items or the filter."""
    schema = build_inline_schema(BulkRequest)
    for name in ("items", "filter"):
        schema["properties"][name] = schema["properties"][name]["anyOf"][0]  # null is the same as left out
    return schema | {"oneOf": [{"required": ["items"]}, {"required": ["filter"]}]}


def _parse_decision(fields: object, caller: Caller, location: str | None) -> Decision:
    """The decision with its reviewer: a caller with a name need not send it."""
    if isinstance(fields, dict) and isinstance(named := fields.get("reviewer", caller.name or None), str):
        field = join_path((location, "reviewer")) or "reviewer"
        reviewer = resolve_reviewer(caller, named, field=field)
        fields = {**fields, "reviewer": reviewer.name, "recorded_by": reviewer.recorded_by}
    return parse_message(Decision, fields, location=location)


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
        caller.check_dataset(item.dataset, field=f"items.{index}.dataset")
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
