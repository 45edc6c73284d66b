"""`POST /v1/score`: scores sentences with the current thresholds, and changes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from service.api.backend import get_backend, get_request_id
from service.api.http.media_types import NDJSON_MEDIA_TYPE, is_ndjson
from service.api.http.ndjson.limiter import get_stream_limiter
from service.api.http.ndjson.response import NdjsonResponse
from service.api.http.problems import render_problem_line, respond_to_error
from service.api.ingest import query as record_query
from service.api.ingest.platform_records import RecordOutcome
from service.api.ingest.query import RecordQuery, parse_record_query
from service.api.ingest.sentence_bodies import build_body_schema, read_body, read_line, with_dataset, with_location
from service.api.scoring.record_scores import score_records
from service.api.scoring.requests import check_datasets, score_unless_disconnected
from service.api.scoring.responses import build_score_response
from service.api.scoring.scorer import ScoreOptions, Scorer
from service.contracts import Assessment, DatasetSettings
from service.errors import InferenceError, InvalidInput, LabelwatchError
from service.scoring.sentence import METHODS
from service.scoring.token import TOKEN_SCORES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from service.api.http.ndjson.lines import BodyLine


SCORE_PATH = "/v1/score"

router = APIRouter(tags=["sentences"])

DEFAULT_OPTIONS, DEFAULT_QUERY = ScoreOptions(), RecordQuery()  # of a request without a query


class Scores(BaseModel):
    """Assessments in the order of the sentences, with the settings and thresholds used."""

    assessments: list[Assessment]
    settings: dict[str, DatasetSettings] = Field(description="Settings used, by dataset")
    thresholds: dict[str, dict[str, float | None]] = Field(
        description="Thresholds used, by dataset and class; null: too few words of the class so far"
    )
    records: list[RecordOutcome] = Field(
        default_factory=list,
        description="Only with a `format` other than `words`: the outcome of each record. `assessments` holds those of "
        "its sentences that are not `deleted`, in this order",
    )


EXAMPLE = {
    "tokens": ["Jane", "Smith", "visited", "Oslo", "."],
    "labels": ["B-PER", "I-PER", "O", "O", "O"],
    "id": "42",
}
OPTION_SCHEMAS: dict[str, Any] = {
    "method": {"type": "string", "enum": list(METHODS), "description": "Overrides the dataset's setting"},
    "token_score": {"type": "string", "enum": list(TOKEN_SCORES), "description": "Overrides the dataset's setting"},
}
BODY_SCHEMA = build_body_schema(OPTION_SCHEMAS, example=EXAMPLE)
PARAMETERS = record_query.QUERY_PARAMETERS + [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": "Overrides the dataset's setting"}
    for name, schema in OPTION_SCHEMAS.items()
]
NDJSON_CONTENT = {
    "schema": {
        "type": "string",
        "description": "One assessment per line, or a problem with its `line`; for platform records `line`, "
        "`format`, `sentences` and `assessments` per line",
    }
}


@router.post(
    SCORE_PATH,
    summary="Score sentences",
    response_class=Response,
    responses={
        200: {
            "model": Scores,
            "content": {NDJSON_MEDIA_TYPE: NDJSON_CONTENT},
            "description": "The assessment of each sentence",
        }
    },
    openapi_extra={"parameters": PARAMETERS, "requestBody": BODY_SCHEMA},
)
async def score(request: Request) -> Response:
    """Scores with the current thresholds and changes none: to update them, send sentences to `/v1/sentences`.

    Send one sentence, a list of them, or (`Content-Type: application/x-ndjson`) one per line for lists of any length:
    each line is answered while you send. A line that can't be scored gets a problem in place of its assessment.
    A list may hold sentences of at most 20 datasets. With `format` send records as annotation platforms export them,
    also as a bare array: `records` holds the outcome of each.
    Low is bad in `score` and `priority`. The `Server-Timing` header says where the time went.
    """
    backend = get_backend(request)
    scorer = get_scorer(request)
    options, query = _parse_query(request) if request.scope["query_string"] else (DEFAULT_OPTIONS, DEFAULT_QUERY)
    if not query.is_words_format:
        return await score_records(request, scorer, options, query)
    if is_ndjson(request.headers):

        async def score_lines(lines: Sequence[BodyLine], first: bool) -> list[bytes]:
            return await _score_lines(request, scorer, options, lines, dataset=query.dataset, first=first)

        return NdjsonResponse(
            score_lines,
            limiter=get_stream_limiter(request),
            request_id=get_request_id(request),
            concurrent=True,
        )
    body = await read_body(
        await request.body(),
        max_words=backend.max_words,
        max_sentences=backend.settings.max_sentences,
        options=ScoreOptions._fields,
    )
    sentences = [with_dataset(sentence, query.dataset) for sentence in body.sentences]
    check_datasets(sentences)
    if body.options:
        options = options._replace(**body.options)
    result = await score_unless_disconnected(request, scorer, sentences, options)
    for index, answer in enumerate(result.answers):
        if not isinstance(answer, bytes):
            raise _with_error_location(answer, f"sentences.{index}" if body.is_list else None)
    return build_score_response(result)


class ScoreFastPath:
    """The innermost middleware: calls `score` for its path without the framework's routing.

    Routing and dependencies add 80 µs to a request of one sentence, which takes 530 µs with a tiny model.
    Any other path goes through the router.
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
    parameters = request.query_params
    query = parse_record_query(parameters, extra=ScoreOptions._fields)
    return ScoreOptions(parameters.get("method"), parameters.get("token_score")), query


def get_scorer(request: Request) -> Scorer:
    return cast("Scorer", request.app.state.scorer)


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
    """An assessment or a problem per line. Only the first lines raise `OverloadedError`; later ones wait for space."""
    backend = get_backend(request)
    request_id = get_request_id(request)
    max_words, max_bytes = backend.max_words, backend.settings.max_line_bytes
    if first:  # an unknown method is an error of the request, not of each line
        scorer.get_context(dataset or "default", options)
    numbers, sentences, answers = [], [], {}
    for line in lines:
        try:
            sentences.append(with_dataset(read_line(line, max_words=max_words, max_bytes=max_bytes), dataset))
            numbers.append(line.number)
        except InvalidInput as error:
            answers[line.number] = render_problem_line(error, request_id=request_id, line=line.number)
    result = await scorer.score(sentences, options, request_id=request_id, wait=not first)
    for number, answer in zip(numbers, result.answers, strict=True):
        answers[number] = (
            answer + b"\n"
            if isinstance(answer, bytes)
            else render_problem_line(answer, request_id=request_id, line=number)
        )
    return [answers[line.number] for line in lines]
