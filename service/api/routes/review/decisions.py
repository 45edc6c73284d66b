"""Decisions of reviewers over REST."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

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
from service.api.http.problems import NotFoundError
from service.api.reviewer_limit import ReviewerLimit
from service.api.routes.review.items import require_item
from service.api.withdrawals import WithdrawalCheck
from service.contracts import Decision
from service.contracts.access.audit import AuditAction
from service.contracts.validation import join_path
from service.errors import ConflictError, InvalidInput
from service.labels import LabelMap
from service.log.protocol import Output
from service.review.bulk import LeftOut, describe_missing_item, find_obstacle, leave_out
from service.review.decisions import check_decision
from service.review.items import ReviewItem
from service.review.messages import build_decision_message
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
    who is not one of them. 409 also if 20 reviewers have decided about the item, with those in the same request.

    `reviewer` is the name of the key, and may be left out. Only an admin may name another reviewer: then `recorded_by` says who it was.

    With `"partial": true` beside `decisions`, decisions that do not fit their item any more are left out and named in the
    answer. So are decisions about items that another reviewer has decided or claimed. The same request may be sent again.
    """
    body = await read_json_object(request)
    partial = pop_flag(body, "partial") if "decisions" in body else False
    messages, audits = [], []
    left_out: list[LeftOut] = []
    withdrawals = WithdrawalCheck(backend)
    with ReviewerLimit(backend) as reviewers:
        for location, fields in list_messages(body, "decisions", backend.settings.max_sentences):
            decision = _parse_decision(fields, caller, location)
            caller.check_dataset_of(decision, field=join_path((location, "dataset")))
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
            too_many = await reviewers.check(item, decision)
            if too_many is not None and not partial:
                raise _build_conflict(too_many, "reviewer", location)
            if too_many is not None:
                left_out.append(leave_out(item, "decided", too_many))
                continue
            withdrawals.note_accepted(decision)
            messages.append(build_decision_message(backend.topics, decision, get_request_id(request)))
            if backend.is_audited:
                audits.append(_build_audit_message(request, backend, decision))
        if messages:
            withdrawals.note_sent()
            reviewers.note_sent()
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
        raise _build_conflict(str(error), error.field, location) from error
    except InvalidInput as error:
        if location is None:
            raise
        raise with_location(error, location) from error
    return decision


def _build_conflict(problem: str, field: str | None, location: str | None) -> ConflictError:
    """`location` is the path of the decision in the body."""
    return ConflictError(problem if location is None else f"{location}: {problem}", field=join_path((location, field)))


def _build_audit_message(request: Request, backend: Backend, decision: Decision) -> Output:
    action: AuditAction = "withdrawal" if decision.withdrawn else "decision"
    return get_actor(request).build_message(
        backend.topics.audit,
        action,
        dataset=decision.dataset,
        subject=decision.id,
        verdict=decision.verdict,
        reviewer=decision.reviewer,
        revision=decision.revision,
        **({"adjudication": True} if decision.adjudication else {}),
    )


def _parse_decision(fields: object, caller: Caller, location: str | None) -> Decision:
    """The decision with its reviewer: a caller with a name need not send it."""
    if isinstance(fields, dict) and isinstance(named := fields.get("reviewer", caller.name or None), str):
        field = join_path((location, "reviewer")) or "reviewer"
        reviewer = resolve_reviewer(caller, named, field=field)
        fields = {**fields, "reviewer": reviewer.name, "recorded_by": reviewer.recorded_by}
    return parse_message(Decision, fields, location=location)
