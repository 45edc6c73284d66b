"""`POST /v1/score` for the records of annotation platforms: each is told with what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import to_json
from starlette.responses import Response

from service.api.backend import get_backend, get_request_id
from service.api.http.line_spool import get_stream_limiter
from service.api.http.middleware import is_ndjson
from service.api.http.ndjson import MAX_BATCH_RECORDS, NdjsonResponse
from service.api.http.problems import encode_problem, to_problem
from service.api.ingest.platform_records import (
    ConvertedRecord,
    RecordConverter,
    convert_lines,
    read_records,
    with_record_number,
)
from service.api.scoring.responses import check_datasets, render_scores, score_unless_disconnected
from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from service.api.http.line_spool import BodyLine
    from service.api.ingest.query import RecordQuery
    from service.api.scoring.scorer import ScoreOptions, Scorer
    from service.contracts import LabelledSentence
    from service.errors import InferenceError

SCORE_BATCH_SENTENCES = 64  # a line may hold many sentences: others have their turn in between


async def score_records(request: Request, scorer: Scorer, options: ScoreOptions, query: RecordQuery) -> Response:
    """Deleted, skipped and rejected annotations have nothing to judge: they are told, and left out."""
    backend = get_backend(request)
    if is_ndjson(request.headers):
        converting = RecordConverter(query, backend)

        async def answered(lines: Sequence[BodyLine], first: bool) -> list[bytes]:
            if first:  # a choice that does not exist is a mistake of the request, not of each line
                scorer.get_context(query.dataset or "default", options)
            return await _score_lines(request, scorer, options, await convert_lines(lines, converting), first=first)

        return NdjsonResponse(
            answered,
            limiter=get_stream_limiter(request),
            request_id=get_request_id(request),
            concurrent=True,
            first_batch_lines=1,
            batch_lines=MAX_BATCH_RECORDS,
        )
    found = await read_records(await request.body(), query, backend, options=options._fields)
    if found.options:
        options = options._replace(**found.options)
    sentences = [(one, sentence) for one in found.converted for sentence in _list_scorable(one)]
    check_datasets([each for _, each in sentences], [one.location or "" for one, _ in sentences])
    scored = await score_unless_disconnected(request, scorer, [each for _, each in sentences], options)
    for (one, sentence), answer in zip(sentences, scored.answers, strict=True):
        if not isinstance(answer, bytes):
            raise _to_record_error(answer, one, sentence)
    records = to_json([one.model_dump(exclude_none=True) for one in found.to_outcomes()])
    return Response(
        render_scores(scored, records), media_type="application/json", headers={"Server-Timing": scored.server_timing}
    )


def _list_scorable(record: ConvertedRecord) -> list[LabelledSentence]:
    return [sentence for sentence in record.sentences if not sentence.deleted]


def _to_record_error(
    error: InvalidInput | InferenceError, record: ConvertedRecord, sentence: LabelledSentence
) -> Exception:
    identity = sentence.id if len(record.sentences) > 1 else None
    if isinstance(error, InvalidInput):
        return with_record_number(error, record.number, record.location, identity=identity)
    return type(error)(f"record {record.number}{f' ({identity})' if identity else ''}: {error}")


async def _score_lines(
    request: Request,
    scorer: Scorer,
    options: ScoreOptions,
    converted: dict[int, ConvertedRecord | Exception],
    *,
    first: bool,
) -> list[bytes]:
    """What came of each line, with its assessments, or a problem. Once some are answered, a full queue is waited for."""
    sentences = [
        (one, sentence)
        for one in converted.values()
        if isinstance(one, ConvertedRecord)
        for sentence in _list_scorable(one)
    ]
    assessments: dict[int, list[bytes]] = {}
    for at in range(0, len(sentences), SCORE_BATCH_SENTENCES):
        some = sentences[at : at + SCORE_BATCH_SENTENCES]
        scored = await score_unless_disconnected(
            request, scorer, [each for _, each in some], options, wait=at > 0 or not first
        )
        for (one, sentence), answer in zip(some, scored.answers, strict=True):
            if isinstance(answer, bytes):
                assessments.setdefault(one.number, []).append(answer)
            elif isinstance(converted[one.number], ConvertedRecord):  # the first error of a line is its answer
                converted[one.number] = _to_record_error(answer, one, sentence)
    request_id = get_request_id(request)
    lines = []
    for number, found in converted.items():
        if isinstance(found, ConvertedRecord):
            start = found.to_json_line().removesuffix(b"}")
            lines.append(b'%b,"assessments":[%b]}\n' % (start, b",".join(assessments.get(number, []))))
        else:
            lines.append(encode_problem(to_problem(found, request_id=request_id, line=number)) + b"\n")
    return lines
