"""The response of `POST /v1/score`, joined from JSON that is serialised already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import to_json
from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.ingest.parsed_records import RecordOutcome
    from service.api.scoring.scorer import ScoringResult


def build_score_response(result: ScoringResult, outcomes: Sequence[RecordOutcome] | None = None) -> Response:
    """`outcomes`: the outcome of each platform record; None if the body held sentences."""
    return Response(
        render_scores(result, outcomes),
        media_type="application/json",
        headers={"Server-Timing": result.server_timing},
    )


def render_scores(result: ScoringResult, outcomes: Sequence[RecordOutcome] | None = None) -> bytes:
    """The body of the response."""
    assessments = b",".join(answer for answer in result.answers if isinstance(answer, bytes))
    contexts = result.contexts.items()
    settings = b",".join(b'"%b":%b' % (dataset.encode(), context.settings_json) for dataset, context in contexts)
    thresholds = b",".join(b'"%b":%b' % (dataset.encode(), context.thresholds_json) for dataset, context in contexts)
    fields = b'"assessments":[%b],"settings":{%b},"thresholds":{%b}' % (assessments, settings, thresholds)
    if outcomes is not None:
        fields += b',"records":' + to_json([outcome.model_dump(exclude_none=True) for outcome in outcomes])
    return b"{%b}" % fields
