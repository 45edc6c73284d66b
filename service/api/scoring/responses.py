"""The response of `POST /v1/score`, joined from JSON that is serialised already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

if TYPE_CHECKING:
    from service.api.scoring.scorer import ScoringResult


def build_score_response(result: ScoringResult, records: bytes | None = None) -> Response:
    """`records`: JSON that says what became of each platform record."""
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
