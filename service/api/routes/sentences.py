"""`POST /v1/sentences`: appends sentences to the input topic, like any other producer."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.api.backend import get_backend, get_request_id
from service.api.http.media_types import NDJSON_MEDIA_TYPE, is_ndjson
from service.api.http.ndjson.limiter import get_stream_limiter
from service.api.http.ndjson.response import MAX_BATCH_RECORDS, NdjsonResponse
from service.api.http.problems import TooLargeError, render_problem_line
from service.api.ingest.platform_records import (
    ConvertedRecord,
    RecordConverter,
    RecordOutcome,
    convert_lines,
    read_records,
)
from service.api.ingest.query import QUERY_PARAMETERS, RecordQuery, parse_record_query
from service.api.ingest.sentence_bodies import build_body_schema, read_body, read_line, with_dataset
from service.errors import InvalidInput
from service.log.codec import build_sentence_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.backend import Backend
    from service.api.http.ndjson.lines import BodyLine
    from service.contracts import LabelledSentence

MAX_APPEND_BATCH = 1_000

router = APIRouter(tags=["sentences"])


class AcceptedSentences(BaseModel):
    """The sentences are committed to the log."""

    ids: list[str] = Field(description="Ids of the sentences, in their order; generated for those without")
    records: list[RecordOutcome] | None = Field(
        default=None, description="Only with a `format` other than `words`: the outcome of each record"
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
    request_id = get_request_id(request)
    query = parse_record_query(request.query_params)
    if is_ndjson(request.headers):
        return _build_stream_response(request, backend, query, request_id)
    outcomes = None
    locations: list[str | None]
    if query.is_words_format:
        body = await read_body(
            await request.body(), max_words=backend.max_words, max_sentences=backend.settings.max_sentences
        )
        sentences = [_ensure_id(with_dataset(sentence, query.dataset)) for sentence in body.sentences]
        locations = [f"sentences.{index}" if body.is_list else None for index in range(len(sentences))]
    else:
        records = await read_records(await request.body(), query, backend)
        sentences, outcomes = records.sentences, records.to_outcomes()
        locations = [record.location for record in records.converted for _ in record.sentences]
    messages = [
        build_sentence_message(backend.topics.sentences, sentence, request_id=request_id, location=location)
        for sentence, location in zip(sentences, locations, strict=True)
    ]
    if messages:
        await backend.appender.append(messages)
    accepted = AcceptedSentences(
        ids=[sentence.id or "" for sentence in sentences], records=outcomes, request_id=request_id
    )
    return Response(accepted.model_dump_json(exclude_none=True), status_code=202, media_type="application/json")


def _build_stream_response(request: Request, backend: Backend, query: RecordQuery, request_id: str) -> NdjsonResponse:
    limiter = get_stream_limiter(request)
    if query.is_words_format:

        async def append_sentences(lines: Sequence[BodyLine], _: bool) -> list[bytes]:
            return await _append_lines(backend, lines, request_id, query.dataset)

        return NdjsonResponse(append_sentences, limiter=limiter, request_id=request_id, status_code=202)
    converter = RecordConverter(query, backend)

    async def append_records(lines: Sequence[BodyLine], _: bool) -> list[bytes]:
        return await _append_records(backend, await convert_lines(lines, converter), request_id)

    return NdjsonResponse(
        append_records,
        limiter=limiter,
        request_id=request_id,
        status_code=202,
        first_batch_lines=1,
        batch_lines=MAX_BATCH_RECORDS,
    )


def _ensure_id(sentence: LabelledSentence) -> LabelledSentence:
    return sentence if sentence.id is not None else sentence.model_copy(update={"id": str(uuid.uuid4())})


async def _append_records(
    backend: Backend, converted: dict[int, ConvertedRecord | Exception], request_id: str
) -> list[bytes]:
    """Appends all sentences of a line, or none of them and answers with a problem."""
    answers, messages = [], []
    for number, record in converted.items():
        try:
            if not isinstance(record, ConvertedRecord):
                raise record
            record_messages = [
                build_sentence_message(backend.topics.sentences, sentence, request_id=request_id)
                for sentence in record.sentences
            ]
        except (InvalidInput, TooLargeError) as error:
            answers.append(render_problem_line(error, request_id=request_id, line=number))
        else:
            messages += record_messages
            answers.append(record.to_json_line() + b"\n")
    for start in range(0, len(messages), MAX_APPEND_BATCH):
        await backend.appender.append(messages[start : start + MAX_APPEND_BATCH])
    return answers


async def _append_lines(
    backend: Backend, lines: Sequence[BodyLine], request_id: str, dataset: str | None
) -> list[bytes]:
    max_words, max_bytes = backend.max_words, backend.settings.max_line_bytes
    answers, messages = [], []
    for line in lines:
        try:
            sentence = _ensure_id(with_dataset(read_line(line, max_words=max_words, max_bytes=max_bytes), dataset))
            messages.append(build_sentence_message(backend.topics.sentences, sentence, request_id=request_id))
        except (InvalidInput, TooLargeError) as error:
            answers.append(render_problem_line(error, request_id=request_id, line=line.number))
        else:
            answers.append(to_json({"line": line.number, "id": sentence.id}) + b"\n")
    if messages:
        await backend.appender.append(messages)
    return answers
