"""`POST /v1/score`: judges sentences with the thresholds of this moment, and teaches nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.api.backend import backend_of, request_id_of
from service.api.middleware import is_ndjson
from service.api.ndjson import MEDIA_TYPE, Line, Streamed
from service.api.problems import OverloadedError, encoded, problem_of
from service.api.scorer import Choice, Scorer
from service.api.sentences import at, body_schema, read_body, read_line
from service.contracts import Assessment, DatasetSettings
from service.errors import InferenceError, InvalidInput
from service.scoring.sentence import METHODS
from service.scoring.token import TOKEN_SCORES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from service.api.scorer import Scored

WATCH_AFTER = 0.2  # seconds: who is answered sooner needs no look whether it is still there

router = APIRouter(tags=["sentences"])


class Scores(BaseModel):
    """Assessments in the order of the sentences, and what they were judged by."""

    assessments: list[Assessment]
    settings: dict[str, DatasetSettings] = Field(description="By dataset, as they were used")
    thresholds: dict[str, dict[str, float | None]] = Field(
        description="By dataset and class, as they were used; null: too little evidence"
    )


EXAMPLE = {
    "tokens": ["Jane", "Smith", "visited", "Oslo", "."],
    "labels": ["B-PER", "I-PER", "O", "O", "O"],
    "id": "42",
}
OPTIONS: dict[str, Any] = {
    "method": {"type": "string", "enum": list(METHODS), "description": "Instead of the dataset's"},
    "token_score": {"type": "string", "enum": list(TOKEN_SCORES), "description": "Instead of the dataset's"},
}
BODY = body_schema(OPTIONS, example=EXAMPLE)
LINES = {"schema": {"type": "string", "description": "An assessment a line, or a problem with its `line`"}}


@router.post(
    "/v1/score",
    summary="Judge sentences",
    response_class=Response,
    responses={200: {"model": Scores, "content": {MEDIA_TYPE: LINES}, "description": "What is said of each sentence"}},
    openapi_extra={"requestBody": BODY},
)
async def score(
    request: Request,
    method: Annotated[str | None, Query(description="Instead of the dataset's; of NDJSON too")] = None,
    token_score: Annotated[str | None, Query(description="Instead of the dataset's; of NDJSON too")] = None,
) -> Response:
    """Judges by the thresholds as they are, and changes nothing: to teach, send sentences to `/v1/sentences`.

    Send one sentence, a list of them, or (`Content-Type: application/x-ndjson`) one a line for lists of any length:
    those are answered line by line while you send. A line that can't be judged gets a problem in its place.
    Low is bad in `score` and `priority`. `Server-Timing` says where the time went.
    """
    backend = backend_of(request)
    scorer = scorer_of(request)
    choice = Choice(method, token_score)
    request_id = request_id_of(request)
    limits = backend.settings
    if is_ndjson(request.headers):

        async def answered(lines: Sequence[Line], first: bool) -> list[bytes]:
            return await _score_lines(request, scorer, choice, lines, first=first)

        return Streamed(answered, max_line_bytes=limits.max_line_bytes, request_id=request_id, ahead=True)
    asked = await read_body(
        await request.body(), max_words=backend.max_words, most=limits.max_sentences, options=Choice._fields
    )
    if asked.options:
        choice = choice._replace(**asked.options)
    scored = await _unless_gone(request, scorer.score(asked.sentences, choice, request_id=request_id))
    for place, answer in enumerate(scored.answers):
        if not isinstance(answer, bytes):
            raise _told(answer, f"sentences.{place}" if asked.listed else None)
    return Response(_joined(scored), media_type="application/json", headers={"Server-Timing": scored.server_timing})


def scorer_of(request: Request) -> Scorer:
    state = request.app.state
    found: Scorer | None = getattr(state, "scorer", None)
    if found is None:
        found = state.scorer = Scorer(backend_of(request))
    return found


def _joined(scored: Scored) -> bytes:
    """Written by hand: everything in it is JSON already."""
    answers = b",".join(answer for answer in scored.answers if isinstance(answer, bytes))
    settings = b",".join(b'"%b":%b' % (name.encode(), each.settings) for name, each in scored.standards.items())
    thresholds = b",".join(b'"%b":%b' % (name.encode(), each.thresholds) for name, each in scored.standards.items())
    return b'{"assessments":[%b],"settings":{%b},"thresholds":{%b}}' % (answers, settings, thresholds)


def _told(error: InvalidInput | InferenceError, place: str | None) -> Exception:
    if isinstance(error, InvalidInput):
        return at(error, place)
    return InferenceError(f"`{place}`: {error}") if place else error


async def _unless_gone(request: Request, work: Awaitable[Scored]) -> Scored:
    """Stops waiting when the client has gone. A look costs more than a short wait, so it comes late."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    looks: list[asyncio.Task[None]] = []
    gone = False

    async def look() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        if task is not None:
            task.cancel()

    timer = loop.call_later(WATCH_AFTER, lambda: looks.append(loop.create_task(look())))
    try:
        return await work
    except asyncio.CancelledError:
        if gone and task is not None:
            task.uncancel()
            raise ClientDisconnect from None
        raise
    except OverloadedError:
        backend_of(request).telemetry.overloaded()
        raise
    finally:
        timer.cancel()
        for each in looks:
            each.cancel()


async def _score_lines(
    request: Request, scorer: Scorer, choice: Choice, lines: Sequence[Line], *, first: bool
) -> list[bytes]:
    """An assessment or a problem a line. Once some are answered, a full queue is waited for."""
    backend = backend_of(request)
    request_id = request_id_of(request)
    max_words, max_bytes = backend.max_words, backend.settings.max_line_bytes
    if first:  # a choice that does not exist is a mistake of the request, not of each line
        scorer.standard("default", choice)
    sentences, answers = [], {}
    for line in lines:
        try:
            sentences.append((line.number, read_line(line, max_words=max_words, max_bytes=max_bytes)))
        except InvalidInput as error:
            answers[line.number] = _problem(error, request_id, line.number)
    try:
        scored = await scorer.score([each for _, each in sentences], choice, request_id=request_id, wait=not first)
    except OverloadedError:
        backend.telemetry.overloaded()
        raise
    for (number, _), answer in zip(sentences, scored.answers, strict=True):
        answers[number] = answer if isinstance(answer, bytes) else _problem(answer, request_id, number)
    return [answers[line.number] + b"\n" for line in lines]


def _problem(error: Exception, request_id: str, line: int) -> bytes:
    return encoded(problem_of(error, request_id=request_id, line=line))
