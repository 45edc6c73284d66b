"""`POST /v1/score`: judges sentences with the thresholds of this moment, and teaches nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from service.api.backend import get_backend, get_request_id
from service.api.http.line_spool import get_stream_limiter
from service.api.http.middleware import is_ndjson
from service.api.http.ndjson import NDJSON_MEDIA_TYPE, NdjsonResponse
from service.api.http.problems import OverloadedError, encode_problem, respond_to_error, to_problem
from service.api.ingest import query as record_query
from service.api.ingest.platform_records import RecordOutcome
from service.api.ingest.query import RecordQuery, parse_record_query
from service.api.ingest.sentence_bodies import build_body_schema, read_body, read_line, with_dataset, with_location
from service.api.scoring.record_scores import score_records
from service.api.scoring.responses import check_datasets, render_scores, score_unless_disconnected
from service.api.scoring.scorer import ScoreOptions, Scorer
from service.contracts import Assessment, DatasetSettings
from service.errors import InferenceError, InvalidInput, LabelwatchError
from service.scoring.sentence import METHODS
from service.scoring.token import TOKEN_SCORES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from service.api.http.line_spool import BodyLine


SCORE_PATH = "/v1/score"

router = APIRouter(tags=["sentences"])

DEFAULT_OPTIONS, DEFAULT_QUERY = ScoreOptions(), RecordQuery()  # what a request without a query asks for


class Scores(BaseModel):
    """Assessments in the order of the sentences, and what they were judged by."""

    assessments: list[Assessment]
    settings: dict[str, DatasetSettings] = Field(description="By dataset, as they were used")
    thresholds: dict[str, dict[str, float | None]] = Field(
        description="By dataset and class, as they were used; null: too little evidence"
    )
    records: list[RecordOutcome] = Field(
        default_factory=list,
        description="Only with a `format` other than `words`: what came of each record. The assessments are those of "
        "its sentences that are not `deleted`, in this order",
    )


EXAMPLE = {
    "tokens": ["Jane", "Smith", "visited", "Oslo", "."],
    "labels": ["B-PER", "I-PER", "O", "O", "O"],
    "id": "42",
}
OPTION_SCHEMAS: dict[str, Any] = {
    "method": {"type": "string", "enum": list(METHODS), "description": "Instead of the dataset's"},
    "token_score": {"type": "string", "enum": list(TOKEN_SCORES), "description": "Instead of the dataset's"},
}
BODY_SCHEMA = build_body_schema(OPTION_SCHEMAS, example=EXAMPLE)
PARAMETERS = record_query.QUERY_PARAMETERS + [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": "Instead of the dataset's"}
    for name, schema in OPTION_SCHEMAS.items()
]
NDJSON_CONTENT = {
    "schema": {
        "type": "string",
        "description": "An assessment a line, or a problem with its `line`; of platform records `line`, "
        "`format`, `sentences` and `assessments` a line",
    }
}


@router.post(
    SCORE_PATH,
    summary="Judge sentences",
    response_class=Response,
    responses={
        200: {
            "model": Scores,
            "content": {NDJSON_MEDIA_TYPE: NDJSON_CONTENT},
            "description": "What is said of each sentence",
        }
    },
    openapi_extra={"parameters": PARAMETERS, "requestBody": BODY_SCHEMA},
)
async def score(request: Request) -> Response:
    """Judges by the thresholds as they are, and changes nothing: to teach, send sentences to `/v1/sentences`.

    Send one sentence, a list of them, or (`Content-Type: application/x-ndjson`) one a line for lists of any length:
    those are answered line by line while you send. A line that can't be judged gets a problem in its place.
    A list may be of at most 20 datasets. With `format` send what annotation platforms export instead, also as a bare
    array: `records` says what came of each.
    Low is bad in `score` and `priority`. `Server-Timing` says where the time went.
    """
    backend = get_backend(request)
    scorer = get_scorer(request)
    choice, wanted = _parse_query(request) if request.scope["query_string"] else (DEFAULT_OPTIONS, DEFAULT_QUERY)
    request_id = get_request_id(request)
    limits = backend.settings
    if not wanted.is_words_format:
        return await score_records(request, scorer, choice, wanted)
    if is_ndjson(request.headers):

        async def answered(lines: Sequence[BodyLine], first: bool) -> list[bytes]:
            return await _score_lines(request, scorer, choice, lines, dataset=wanted.dataset, first=first)

        return NdjsonResponse(answered, limiter=get_stream_limiter(request), request_id=request_id, concurrent=True)
    asked = await read_body(
        await request.body(),
        max_words=backend.max_words,
        max_sentences=limits.max_sentences,
        options=ScoreOptions._fields,
    )
    if wanted.dataset is not None:
        asked = asked._replace(sentences=[with_dataset(each, wanted.dataset) for each in asked.sentences])
    check_datasets(asked.sentences)
    if asked.options:
        choice = choice._replace(**asked.options)
    scored = await score_unless_disconnected(request, scorer, asked.sentences, choice)
    for place, answer in enumerate(scored.answers):
        if not isinstance(answer, bytes):
            raise _with_error_location(answer, f"sentences.{place}" if asked.is_list else None)
    return Response(
        render_scores(scored), media_type="application/json", headers={"Server-Timing": scored.server_timing}
    )


class ScoreFastPath:
    """The innermost middleware: takes what is for `score` past the framework's routing.

    Routing, dependencies and their stacks cost as much as reading, judging and writing a sentence. Whatever is not
    exactly this path goes the long way, to the same function.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._route = next(route for route in router.routes if isinstance(route, APIRoute) and route.path == SCORE_PATH)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != SCORE_PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = self._route
        request = Request(scope, receive, send)
        try:
            response = await score(request)
        except LabelwatchError as error:
            response = respond_to_error(error, request_id=get_request_id(request))
        await (self._app if isinstance(response, NdjsonResponse) else response)(scope, receive, send)


def _parse_query(request: Request) -> tuple[ScoreOptions, RecordQuery]:
    query = request.query_params
    wanted = parse_record_query(query, extra=ScoreOptions._fields)
    return ScoreOptions(query.get("method"), query.get("token_score")), wanted


def get_scorer(request: Request) -> Scorer:
    state = request.app.state
    found: Scorer | None = getattr(state, "scorer", None)
    if found is None:
        found = state.scorer = Scorer(get_backend(request))
    return found


def _with_error_location(error: InvalidInput | InferenceError, location: str | None) -> Exception:
    if isinstance(error, InvalidInput):
        return with_location(error, location)
    return InferenceError(f"`{location}`: {error}") if location else error


async def _score_lines(
    request: Request,
    scorer: Scorer,
    options: ScoreOptions,
    lines: Sequence[BodyLine],
    *,
    dataset: str | None,
    first: bool,
) -> list[bytes]:
    """An assessment or a problem a line. Once some are answered, a full queue is waited for."""
    backend = get_backend(request)
    request_id = get_request_id(request)
    max_words, max_bytes = backend.max_words, backend.settings.max_line_bytes
    if first:  # a choice that does not exist is a mistake of the request, not of each line
        scorer.get_context(dataset or "default", options)
    sentences, answers = [], {}
    for line in lines:
        try:
            sentence = with_dataset(read_line(line, max_words=max_words, max_bytes=max_bytes), dataset)
            sentences.append((line.number, sentence))
        except InvalidInput as error:
            answers[line.number] = _encode_line_problem(error, request_id, line.number)
    try:
        scored = await scorer.score([each for _, each in sentences], options, request_id=request_id, wait=not first)
    except OverloadedError:
        backend.telemetry.count_overload()
        raise
    for (number, _), answer in zip(sentences, scored.answers, strict=True):
        answers[number] = answer if isinstance(answer, bytes) else _encode_line_problem(answer, request_id, number)
    return [answers[line.number] + b"\n" for line in lines]


def _encode_line_problem(error: Exception, request_id: str, line: int) -> bytes:
    return encode_problem(to_problem(error, request_id=request_id, line=line))
