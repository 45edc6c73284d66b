"""Decisions of reviewers over REST."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from service.api.backend import get_request_id
from service.api.dependencies import BackendDep
from service.api.http.bodies import list_messages, parse_message, read_json_object, with_location
from service.api.routes.review import require_item
from service.contracts import Decision
from service.errors import InvalidInput
from service.review.decisions import check_decision
from service.review.messages import build_decision_message

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
    request_id: str


def _build_body_schema() -> dict[str, Any]:
    decision = {"$ref": "#/components/schemas/Decision"}
    decision_list = {
        "type": "object",
        "required": ["decisions"],
        "properties": {"decisions": {"type": "array", "minItems": 1, "items": decision}},
    }
    return {"anyOf": [decision, decision_list]}


@router.post(
    "/v1/decisions",
    summary="Decide",
    status_code=202,
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
async def decide(request: Request, backend: BackendDep) -> AcceptedDecisions:
    """Send one decision, or several as `{"decisions": […]}`: all of them are written, or none.

    Each decision is checked against its item, and corrected labels against the labels of the dataset. `revision` defaults to
    the revision in the queue, `decided_at` to the current time. `"withdrawn": true` withdraws the reviewer's decision.
    """
    body = await read_json_object(request)
    messages = []
    for location, fields in list_messages(body, "decisions", backend.settings.max_sentences):
        decision = parse_message(Decision, fields, location=location)
        item = await require_item(backend, decision.dataset, decision.id, location=location)
        if "revision" not in decision.model_fields_set:
            decision = decision.model_copy(update={"revision": item.revision})
        label_map = backend.state_view.get_judge(decision.dataset).label_map
        try:
            decision = check_decision(item, decision, label_map=label_map)
        except InvalidInput as error:
            if location is None:
                raise
            raise with_location(error, location) from error
        messages.append(build_decision_message(backend.topics, decision, get_request_id(request)))
    await backend.appender.append(messages)
    return AcceptedDecisions(accepted=len(messages), request_id=get_request_id(request))
