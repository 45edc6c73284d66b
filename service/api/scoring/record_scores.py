"""`POST /v1/score` for the records of annotation platforms: the response says what became of each record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import to_json

from service.api.backend import get_backend, get_request_id
from service.api.http.media_types import is_ndjson
from service.api.http.ndjson.limiter import get_stream_limiter
from service.api.http.ndjson.response import MAX_BATCH_RECORDS, NdjsonResponse
from service.api.http.problems import render_problem_line
from service.api.ingest.platform_records import (
    ConvertedRecord,
    RecordConverter,
    convert_lines,
    read_records,
    with_record_number,
)
from service.api.scoring.requests import check_datasets, score_unless_disconnected
from service.api.scoring.responses import build_score_response
from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from service.api.http.ndjson.lines import BodyLine
    from service.api.ingest.query import RecordQuery
    from service.api.scoring.scorer import ScoreOptions, Scorer
    from service.contracts import LabelledSentence
    from service.errors import InferenceError

SCORE_BATCH_SENTENCES = 64  # a line may hold many sentences: other requests run in between


async def score_records(request: Request, scorer: Scorer, options: ScoreOptions, query: RecordQuery) -> Response:
    """Lists deleted, skipped and rejected annotations in the response, but does not score them."""
    backend = get_backend(request)
    if is_ndjson(request.headers):
        converter = RecordConverter(query, backend)

        async def score_lines(lines: Sequence[BodyLine], first: bool) -> list[bytes]:
            if first:  # an unknown method is an error of the request, not of each line
                scorer.get_context(query.dataset or "default", options)
            return await _score_lines(request, scorer, options, await convert_lines(lines, converter), first=first)

        return NdjsonResponse(
            score_lines,
            limiter=get_stream_limiter(request),
            request_id=get_request_id(request),
            concurrent=True,
            first_batch_lines=1,
            batch_lines=MAX_BATCH_RECORDS,
        )
    body = await read_records(await request.body(), query, backend, options=options._fields)
    if body.options:
        options = options._replace(**body.options)
    pairs = [(record, sentence) for record in body.converted for sentence in _list_scorable(record)]
    sentences = [sentence for _, sentence in pairs]
    check_datasets(sentences, [record.location or "" for record, _ in pairs])
    result = await score_unless_disconnected(request, scorer, sentences, options)
    for (record, sentence), answer in zip(pairs, result.answers, strict=True):
        if not isinstance(answer, bytes):
            raise _to_record_error(answer, record, sentence)
    outcomes = to_json([outcome.model_dump(exclude_none=True) for outcome in body.to_outcomes()])
    return build_score_response(result, outcomes)


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
    """One line per record: its outcome with its assessments, or a problem.

    Only the first lines raise `OverloadedError`; later ones wait for space in the queue.
    """
    pairs = [
        (record, sentence)
        for record in converted.values()
        if isinstance(record, ConvertedRecord)
        for sentence in _list_scorable(record)
    ]
    assessments: dict[int, list[bytes]] = {}
    for start in range(0, len(pairs), SCORE_BATCH_SENTENCES):
        batch = pairs[start : start + SCORE_BATCH_SENTENCES]
        sentences = [sentence for _, sentence in batch]
        result = await score_unless_disconnected(request, scorer, sentences, options, wait=start > 0 or not first)
        for (record, sentence), answer in zip(batch, result.answers, strict=True):
            if isinstance(answer, bytes):
                assessments.setdefault(record.number, []).append(answer)
            elif isinstance(converted[record.number], ConvertedRecord):  # the first error of a line is its answer
                converted[record.number] = _to_record_error(answer, record, sentence)
    request_id = get_request_id(request)
    lines = []
    for number, outcome in converted.items():
        if isinstance(outcome, ConvertedRecord):
            fields = outcome.to_json_line().removesuffix(b"}")
            lines.append(b'%b,"assessments":[%b]}\n' % (fields, b",".join(assessments.get(number, []))))
        else:
            lines.append(render_problem_line(outcome, request_id=request_id, line=number))
    return lines
