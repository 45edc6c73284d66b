"""`POST /v1/sentences`: appends sentences to the input topic, like any other producer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.api.access.caller import get_caller
from service.api.backend import get_backend, get_request_id
from service.api.http.media_types import NDJSON_MEDIA_TYPE, is_ndjson
from service.api.http.problems import TooLargeError, render_problem_line
from service.api.ingest.body_reader import BodyReader
from service.api.ingest.body_schema import QUERY_PARAMETERS, build_body_schema
from service.api.ingest.parsed_records import ParsedRecord, RecordOutcome
from service.api.ingest.query import parse_record_query
from service.api.ingest.request_origin import get_request_origin
from service.datasets.waiting import explain_waiting
from service.errors import InvalidInput
from service.log.codec import build_sentence_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.api.backend import Backend
    from service.api.http.ndjson.lines import BodyLine
    from service.api.ingest.query import RecordQuery
    from service.log.codec import RequestOrigin

MAX_APPEND_BATCH = 1_000

router = APIRouter(tags=["sentences"])


class AcceptedSentences(BaseModel):
    """The sentences are committed to the log."""

    ids: list[str] = Field(description="Ids of the sentences, in their order; generated for those without")
    records: list[RecordOutcome] | None = Field(
        default=None, description="Only with a `format` other than `words`: the outcome of each record"
    )
    waiting: dict[str, str] | None = Field(
        default=None,
        description="Datasets among these sentences that wait for a model, with what to do: the sentences are stored, "
        "and judged once the dataset has a model",
    )
    request_id: str


EXAMPLE = {
    "tokens": ["Jane", "Smith", "visited", "Oslo", "."],
    "labels": ["B-PER", "I-PER", "O", "O", "O"],
    "id": "42",
    "annotator": "kim",
}
NDJSON_CONTENT = {
    "schema": {
        "type": "string",
        "description": "`line` and `id` per line (for platform records `line`, `format` and `sentences`), "
        "or a problem with its `line`",
    }
}


@router.post(
    "/v1/sentences",
    status_code=202,
    summary="Send sentences",
    response_class=Response,
    responses={
        202: {
            "model": AcceptedSentences,
            "content": {NDJSON_MEDIA_TYPE: NDJSON_CONTENT},
            "description": "The sentences are in the log",
        }
    },
    openapi_extra={"parameters": QUERY_PARAMETERS, "requestBody": build_body_schema(example=EXAMPLE)},
)
async def send(request: Request) -> Response:
    """Appends to the input topic. 202 means that the sentences are committed there; doubtful ones appear in `/v1/review`.

    The worker assesses each sentence and updates the thresholds. Send a changed annotation again with `update: true`
    and a higher `revision`, and a deleted one with `deleted: true` and its `id`. A sentence sent twice counts twice in
    the thresholds: after a 503 some sentences may be in the log already.
    With `Content-Type: application/x-ndjson` send one per line, in lists of any length. Each line is answered with its
    `id` or with a problem; an invalid line does not stop the others.

    With `format` send records as annotation platforms export them, also as a bare array: `records` holds the outcome
    of each. Spans become labels in the dataset's own scheme. A record with an unreadable annotation is rejected whole.
    """
    backend = get_backend(request)
    origin = get_request_origin(request)
    query = parse_record_query(request.query_params)
    reader = BodyReader(query, backend, get_caller(request), assign_ids=True)
    if is_ndjson(request.headers):

        async def append_lines(lines: Sequence[BodyLine], _: bool) -> list[bytes]:
            return await _append_lines(backend, reader, lines, origin)

        return reader.build_line_response(request, append_lines, status_code=202)
    body = await reader.read_body(await request.body())
    messages = [
        build_sentence_message(backend.topics.sentences, sentence, origin=origin, location=record.location)
        for record in body.records
        for sentence in record.sentences
    ]
    if messages:
        await backend.appender.append(messages)
    accepted = AcceptedSentences(
        ids=[sentence.id or "" for sentence in body.sentences],
        records=None if query.is_words_format else body.to_outcomes(),
        waiting=_explain_waiting(backend, {sentence.dataset for sentence in body.sentences}) or None,
        request_id=get_request_id(request),
    )
    return Response(accepted.model_dump_json(exclude_none=True), status_code=202, media_type="application/json")


def _explain_waiting(backend: Backend, datasets: Iterable[str]) -> dict[str, str]:
    """What is known when the request is answered: the worker has not seen its sentences yet."""
    found = {name: backend.state_view.find_waiting(name) for name in sorted(datasets)}
    return {
        name: explain_waiting(waiting) for name, waiting in found.items() if waiting is not None and not waiting.fits
    }


async def _append_lines(
    backend: Backend, reader: BodyReader, lines: Sequence[BodyLine], origin: RequestOrigin
) -> list[bytes]:
    """Appends all sentences of a line, or none of them and answers with a problem."""
    answers, messages = [], []
    for number, record in (await reader.read_lines(lines)).items():
        if not isinstance(record, ParsedRecord):
            answers.append(render_problem_line(record, request_id=origin.request_id or "", line=number))
            continue
        try:
            messages += [
                build_sentence_message(backend.topics.sentences, sentence, origin=origin)
                for sentence in record.sentences
            ]
        except (InvalidInput, TooLargeError) as error:
            answers.append(render_problem_line(error, request_id=origin.request_id or "", line=number))
        else:
            answers.append(_render_accepted_line(record, reader.query))
    for start in range(0, len(messages), MAX_APPEND_BATCH):
        await backend.appender.append(messages[start : start + MAX_APPEND_BATCH])
    return answers


def _render_accepted_line(record: ParsedRecord, query: RecordQuery) -> bytes:
    if not query.is_words_format:
        return record.to_json_line() + b"\n"
    (sentence,) = record.sentences
    return to_json({"line": record.number, "id": sentence.id}) + b"\n"
