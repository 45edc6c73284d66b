"""`POST /v1/score`: scores sentences with the current thresholds, and changes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastapi import APIRouter
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from service.api.access.caller import get_caller
from service.api.backend import get_request_id, get_scoring_backend
from service.api.http.media_types import NDJSON_MEDIA_TYPE, is_ndjson
from service.api.http.ndjson.response import NdjsonResponse
from service.api.http.problems import respond_to_error
from service.api.ingest.body_reader import BodyReader
from service.api.ingest.body_schema import QUERY_PARAMETERS, build_body_schema
from service.api.ingest.parsed_records import RecordOutcome
from service.api.ingest.query import RecordQuery, parse_record_query
from service.api.scoring.lines import LineScorer
from service.api.scoring.requests import check_datasets, watch_client
from service.api.scoring.responses import build_score_response
from service.api.scoring.scorer import ScoreOptions, Scorer
from service.contracts import Assessment, DatasetSettings
from service.errors import LabelwatchError
from service.scoring.sentence import METHODS
from service.scoring.token import TOKEN_SCORES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


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
PARAMETERS = QUERY_PARAMETERS + [
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
    options, query = _parse_query(request) if request.scope["query_string"] else (DEFAULT_OPTIONS, DEFAULT_QUERY)
    scorer = get_scorer(request)
    reader = BodyReader(query, get_scoring_backend(request), get_caller(request))
    if is_ndjson(request.headers):
        lines = LineScorer(reader, scorer, options, request_id=get_request_id(request))
        return reader.build_line_response(request, lines.score_lines, concurrent=True)
    body = await reader.read_body(await request.body(), options=ScoreOptions._fields)
    if body.options:
        options = options._replace(**body.options)
    pairs = [(record, sentence) for record in body.records for sentence in reader.list_scorable(record)]
    sentences = [sentence for _, sentence in pairs]
    check_datasets(sentences, [record.location for record, _ in pairs])
    work = scorer.score(sentences, options, request_id=get_request_id(request))
    result = await watch_client(request.receive, get_scoring_backend(request).batcher, len(sentences), work)
    for (record, sentence), answer in zip(pairs, result.answers, strict=True):
        if not isinstance(answer, bytes):
            raise reader.locate_error(answer, record, sentence)
    return build_score_response(result, None if query.is_words_format else body.to_outcomes())


class ScoreFastPath:
    """The innermost middleware: calls `score` for its path without the framework's routing.

    It has the requests that `service.api.scoring.direct` does not take.
    Routing and dependencies add 80 µs to a request of one sentence, which takes 530 µs with a tiny model.
    Any other path goes through the router.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._route = get_score_route()

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
        # An NDJSON response may raise when it runs: the framework's exception handlers must be around it.
        await (self._app if isinstance(response, NdjsonResponse) else response)(scope, receive, send)


def _parse_query(request: Request) -> tuple[ScoreOptions, RecordQuery]:
    parameters = request.query_params
    query = parse_record_query(parameters, extra=ScoreOptions._fields)
    return ScoreOptions(parameters.get("method"), parameters.get("token_score")), query


def get_score_route() -> APIRoute:
    return next(route for route in router.routes if isinstance(route, APIRoute) and route.path == SCORE_PATH)


def get_scorer(request: Request) -> Scorer:
    return cast("Scorer", request.app.state.scorer)
