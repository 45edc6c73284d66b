"""`POST /v1/sentences`: appends sentences to the input topic, where they are judged and teach like any producer's."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.api.backend import get_backend, get_request_id
from service.api.http.line_spool import get_stream_limiter
from service.api.http.middleware import is_ndjson
from service.api.http.ndjson import MAX_BATCH_RECORDS, NDJSON_MEDIA_TYPE, NdjsonResponse
from service.api.http.problems import TooLargeError, encode_problem, to_problem
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
    from service.api.http.line_spool import BodyLine
    from service.contracts import LabelledSentence

MAX_APPEND_BATCH = 1_000

router = APIRouter(tags=["sentences"])


class AcceptedSentences(BaseModel):
    """The sentences are safe in the log."""

    ids: list[str] = Field(description="In the order of the sentences; made where they had none")
    records: list[RecordOutcome] | None = Field(
        default=None, description="Only with a `format` other than `words`: what came of each record"
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
        "description": "`line` and `id` a line (of platform records `line`, `format` and `sentences`), "
        "or a problem with its `line`",
    }
}


@router.post(
    "/v1/sentences",
    status_code=202,
    summary="Send sentences to be judged and learned from",
    response_class=Response,
    responses={
        202: {
            "model": AcceptedSentences,
            "content": {NDJSON_MEDIA_TYPE: NDJSON_CONTENT},
            "description": "They are in the log",
        }
    },
    openapi_extra={"parameters": QUERY_PARAMETERS, "requestBody": build_body_schema(example=EXAMPLE)},
)
async def send(request: Request) -> Response:
    """Appends to the input topic: 202 means that the sentences are safe there; the doubtful ones come to `/v1/review`.

    An annotation that was changed is sent again with `update: true` and a higher `revision`, one that is gone with
    `deleted: true` and its `id`. A sentence sent twice teaches twice: after a 503 some may be in the log already.
    With `Content-Type: application/x-ndjson` send one a line, in lists of any length, answered line by line: each
    gets its `id`, or a problem in its place, and the others go on.

    With `format` send what annotation platforms export instead, also as a bare array: `records` says what came of each.
    Spans become labels in the dataset's own scheme. A record with an annotation that can't be read is refused whole.
    """
    backend = get_backend(request)
    request_id = get_request_id(request)
    wanted = parse_record_query(request.query_params)
    if is_ndjson(request.headers):
        return _build_stream_response(request, backend, wanted, request_id)
    records = None
    places: list[str | None]
    if wanted.is_words_format:
        most = backend.settings.max_sentences
        asked = await read_body(await request.body(), max_words=backend.max_words, max_sentences=most)
        sentences = [_ensure_id(with_dataset(sentence, wanted.dataset)) for sentence in asked.sentences]
        places = [f"sentences.{place}" if asked.is_list else None for place in range(len(sentences))]
    else:
        found = await read_records(await request.body(), wanted, backend)
        sentences, records = found.sentences, found.to_outcomes()
        places = [one.location for one in found.converted for _ in one.sentences]
    messages = [
        build_sentence_message(backend.topics.sentences, sentence, request_id=request_id, location=place)
        for sentence, place in zip(sentences, places, strict=True)
    ]
    if messages:
        await backend.append(messages)
    answer = AcceptedSentences(
        ids=[sentence.id or "" for sentence in sentences], records=records, request_id=request_id
    )
    return Response(answer.model_dump_json(exclude_none=True), status_code=202, media_type="application/json")


def _build_stream_response(request: Request, backend: Backend, query: RecordQuery, request_id: str) -> NdjsonResponse:
    streams = get_stream_limiter(request)
    if query.is_words_format:

        async def appended(lines: Sequence[BodyLine], _: bool) -> list[bytes]:
            return await _append_lines(backend, lines, request_id, query.dataset)

        return NdjsonResponse(appended, limiter=streams, request_id=request_id, status_code=202)
    converting = RecordConverter(query, backend)

    async def converted(lines: Sequence[BodyLine], _: bool) -> list[bytes]:
        return await _append_records(backend, await convert_lines(lines, converting), request_id)

    return NdjsonResponse(
        converted,
        limiter=streams,
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
    """All sentences of a line, or none of them and its problem."""
    answers, messages = [], []
    for number, found in converted.items():
        try:
            if not isinstance(found, ConvertedRecord):
                raise found
            mine = [
                build_sentence_message(backend.topics.sentences, sentence, request_id=request_id)
                for sentence in found.sentences
            ]
        except (InvalidInput, TooLargeError) as error:
            answers.append(encode_problem(to_problem(error, request_id=request_id, line=number)) + b"\n")
        else:
            messages += mine
            answers.append(found.to_json_line() + b"\n")
    for at in range(0, len(messages), MAX_APPEND_BATCH):
        await backend.append(messages[at : at + MAX_APPEND_BATCH])
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
            answers.append(encode_problem(to_problem(error, request_id=request_id, line=line.number)) + b"\n")
        else:
            answers.append(to_json({"line": line.number, "id": sentence.id}) + b"\n")
    if messages:
        await backend.append(messages)
    return answers
