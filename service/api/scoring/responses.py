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
    records = None if outcomes is None else to_json([outcome.model_dump(exclude_none=True) for outcome in outcomes])
    return Response(
        render_scores(result, records), media_type="application/json", headers={"Server-Timing": result.server_timing}
    )


def render_scores(result: ScoringResult, records: bytes | None = None) -> bytes:
    assessments = b",".join(answer for answer in result.answers if isinstance(answer, bytes))
    contexts = result.contexts.items()
    settings = b",".join(b'"%b":%b' % (dataset.encode(), context.settings_json) for dataset, context in contexts)
    thresholds = b",".join(b'"%b":%b' % (dataset.encode(), context.thresholds_json) for dataset, context in contexts)
    records_field = b"" if records is None else b',"records":' + records
    return b'{"assessments":[%b],"settings":{%b},"thresholds":{%b}%b}' % (
        assessments,
        settings,
        thresholds,
        records_field,
    )
