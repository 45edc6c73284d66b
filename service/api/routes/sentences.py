"""`POST /v1/sentences`: appends sentences to the input topic, where they are judged and teach like any producer's."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.responses import Response

from service.api.backend import backend_of, request_id_of
from service.api.http.line_spool import streams_of
from service.api.http.middleware import is_ndjson
from service.api.http.ndjson import MEDIA_TYPE, RECORDS_AT_ONCE, Streamed
from service.api.http.problems import TooLargeError, encoded, problem_of
from service.api.ingest.platform_records import Converting, Made, RecordOutcome, read_lines, read_records
from service.api.ingest.query import PARAMETERS, Wanted, read_query
from service.api.ingest.sentence_bodies import body_schema, in_dataset, read_body, read_line
from service.errors import InvalidInput
from service.log.codec import SENTENCE, event_headers
from service.log.protocol import Output
from service.log.topics import MAX_INPUT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.api.backend import Backend
    from service.api.http.line_spool import Line
    from service.contracts import LabelledSentence

APPENDED_TOGETHER = 1_000
MAX_VALUE_BYTES = MAX_INPUT_BYTES - 4096  # key and headers count too

router = APIRouter(tags=["sentences"])


class Accepted(BaseModel):
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
LINES = {
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
    responses={202: {"model": Accepted, "content": {MEDIA_TYPE: LINES}, "description": "They are in the log"}},
    openapi_extra={"parameters": PARAMETERS, "requestBody": body_schema(example=EXAMPLE)},
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
    backend = backend_of(request)
    request_id = request_id_of(request)
    wanted = read_query(request.query_params)
    if is_ndjson(request.headers):
        return _streamed(request, backend, wanted, request_id)
    records = None
    places: list[str | None]
    if wanted.plain:
        most = backend.settings.max_sentences
        asked = await read_body(await request.body(), max_words=backend.max_words, most=most)
        sentences = [_named(in_dataset(sentence, wanted.dataset)) for sentence in asked.sentences]
        places = [f"sentences.{place}" if asked.listed else None for place in range(len(sentences))]
    else:
        found = await read_records(await request.body(), wanted, backend)
        sentences, records = found.sentences, found.outcomes()
        places = [one.place for one in found.made for _ in one.sentences]
    messages = [
        message_of(backend, sentence, request_id, place) for sentence, place in zip(sentences, places, strict=True)
    ]
    if messages:
        await backend.append(messages)
    answer = Accepted(ids=[sentence.id or "" for sentence in sentences], records=records, request_id=request_id)
    return Response(answer.model_dump_json(exclude_none=True), status_code=202, media_type="application/json")


def _streamed(request: Request, backend: Backend, wanted: Wanted, request_id: str) -> Streamed:
    streams = streams_of(request)
    if wanted.plain:

        async def appended(lines: Sequence[Line], _: bool) -> list[bytes]:
            return await _append_lines(backend, lines, request_id, wanted.dataset)

        return Streamed(appended, streams=streams, request_id=request_id, status_code=202)
    converting = Converting(wanted, backend)

    async def converted(lines: Sequence[Line], _: bool) -> list[bytes]:
        return await _append_records(backend, await read_lines(lines, converting), request_id)

    return Streamed(
        converted, streams=streams, request_id=request_id, status_code=202, at_first=1, at_once=RECORDS_AT_ONCE
    )


def _named(sentence: LabelledSentence) -> LabelledSentence:
    return sentence if sentence.id is not None else sentence.model_copy(update={"id": str(uuid.uuid4())})


def message_of(backend: Backend, sentence: LabelledSentence, request_id: str, place: str | None = None) -> Output:
    value = sentence.model_dump_json(exclude_defaults=True).encode()
    if len(value) > MAX_VALUE_BYTES:
        told = f"the message has {len(value):,} bytes, at most {MAX_VALUE_BYTES:,} are taken: split it"
        raise TooLargeError(f"`{place}`: {told}" if place else told, field=place)
    headers = event_headers(SENTENCE, identity=str(uuid.uuid4()), at=datetime.now(UTC), request_id=request_id)
    return Output(backend.topics.sentences, f"{sentence.dataset}/{sentence.id}".encode(), value, headers)


async def _append_records(backend: Backend, made: dict[int, Made | Exception], request_id: str) -> list[bytes]:
    """All sentences of a line, or none of them and its problem."""
    answers, messages = [], []
    for number, found in made.items():
        try:
            if not isinstance(found, Made):
                raise found
            mine = [message_of(backend, sentence, request_id) for sentence in found.sentences]
        except (InvalidInput, TooLargeError) as error:
            answers.append(encoded(problem_of(error, request_id=request_id, line=number)) + b"\n")
        else:
            messages += mine
            answers.append(found.line() + b"\n")
    for at in range(0, len(messages), APPENDED_TOGETHER):
        await backend.append(messages[at : at + APPENDED_TOGETHER])
    return answers


async def _append_lines(backend: Backend, lines: Sequence[Line], request_id: str, dataset: str | None) -> list[bytes]:
    max_words, max_bytes = backend.max_words, backend.settings.max_line_bytes
    answers, messages = [], []
    for line in lines:
        try:
            sentence = _named(in_dataset(read_line(line, max_words=max_words, max_bytes=max_bytes), dataset))
            messages.append(message_of(backend, sentence, request_id))
        except (InvalidInput, TooLargeError) as error:
            answers.append(encoded(problem_of(error, request_id=request_id, line=line.number)) + b"\n")
        else:
            answers.append(to_json({"line": line.number, "id": sentence.id}) + b"\n")
    if messages:
        await backend.append(messages)
    return answers
