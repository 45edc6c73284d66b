"""Answers `POST /v1/score` for one sentence without the framework: the shortest way from its bytes to the answer.

It does what `service.api.http.middleware` and `service.api.routes.score` do for such a request, with their parts. Every
other request goes to the app: lists, platform records, NDJSON, a query, a large body or one that has not arrived yet, and
all requests while spans are recorded or other origins are allowed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.requests import ClientDisconnect

from service.api.access.caller import CALLER_KEY
from service.api.http.body_budget import UNCOUNTED_BYTES
from service.api.http.connections.exchange import find_exchange
from service.api.http.deadlines import TaskDeadlines
from service.api.http.media_types import JSON_MEDIA_TYPE
from service.api.http.middleware.access_control import AccessControl, build_refusal
from service.api.http.middleware.request_context import (
    CLIENT_CLOSED_REQUEST,
    SECURITY_HEADERS,
    RequestContext,
    complete_headers,
    read_request_id,
)
from service.api.http.middleware.request_limits import build_timeout_error
from service.api.http.problems import RequestError, build_problem_response, respond_to_error
from service.api.ingest.body_reader import is_small_body
from service.api.ingest.query import RecordQuery
from service.api.ingest.sentence_parser import SentenceParser, has_list
from service.api.scoring.requests import watch_client
from service.api.scoring.responses import render_scores
from service.api.scoring.scorer import ScoreOptions, ScoringResult
from service.errors import LabelwatchError
from service.telemetry import current_request_id

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.routing import APIRoute
    from starlette.responses import Response
    from starlette.types import Message, Receive, Scope, Send

    from service.api.access.caller import Caller
    from service.api.backend import ScoringBackend
    from service.api.http.connections.exchange import Exchange
    from service.api.scoring.scorer import Scorer

logger = logging.getLogger(__name__)

STATUS_LINE: Final = b"HTTP/1.1 200 OK\r\n"
DEFAULT_OPTIONS: Final = ScoreOptions()
_CONTENT_TYPE: Final = (b"content-type", JSON_MEDIA_TYPE.encode())
_FIXED_HEADERS: Final = b"".join(b"%b: %b\r\n" % pair for pair in (_CONTENT_TYPE, *SECURITY_HEADERS))


class DirectScoring:
    """An ASGI app around the app of the API."""

    def __init__(self, app: FastAPI, route: APIRoute) -> None:
        """`route`: the app's own for these requests."""
        state, backend = app.state, app.state.backend
        self._app = app
        self._route = route
        self._backend: ScoringBackend = backend
        self._scorer: Scorer = state.scorer
        self._context = RequestContext(app, backend)
        self._access = AccessControl(app, backend, state.authenticator, state.access_table, state.body_budget)
        self._parser = SentenceParser(RecordQuery(), backend, threading.Event(), assign_ids=False)
        self._deadlines = TaskDeadlines(backend.settings.timeout_s)
        self._is_possible = backend.tracing is None and not backend.settings.origins
        self._max_bytes = min(backend.settings.max_body_bytes, UNCOUNTED_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = find_exchange(scope)
        if exchange is None or not self._takes_head(scope) or not await self._takes_body(exchange):
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        request_id = scope["state"]["request_id"] = read_request_id(scope["headers"])
        current_request_id.set(request_id)  # in the context of this task, which ends with the request
        try:
            answer = await self._answer(scope, receive, exchange.take_body(), request_id)
            if isinstance(answer, ScoringResult):
                body = render_scores(answer)
                status = HTTPStatus.OK
                await exchange.respond(STATUS_LINE, _build_headers(answer, len(body), request_id), body)
            else:
                status = answer.status_code
                await _send_response(answer, scope, receive, send)
        except ClientDisconnect:
            status = status or CLIENT_CLOSED_REQUEST
        finally:
            self._context.record_request(scope, status, time.perf_counter() - started)

    def _takes_head(self, scope: Scope) -> bool:
        if scope["path"] != self._route.path or scope["method"] != "POST" or scope["query_string"]:
            return False
        return self._is_possible and _CONTENT_TYPE in scope["headers"]

    async def _takes_body(self, exchange: Exchange) -> bool:
        if not exchange.is_complete and not exchange.awaits_consent:
            await exchange.wait_for_body()
        body = exchange.body
        return exchange.is_complete and len(body) <= self._max_bytes and not has_list(body) and is_small_body(body)

    async def _answer(self, scope: Scope, receive: Receive, raw: bytes, request_id: str) -> ScoringResult | Response:
        try:
            self._access.check_access(scope)
        except RequestError as error:
            return build_refusal(error, request_id=request_id)
        scope["route"] = self._route
        try:
            return await self._score(scope, receive, raw, request_id)
        except LabelwatchError as error:
            return respond_to_error(error, request_id=request_id)
        except ClientDisconnect:
            raise
        except Exception as error:
            logger.exception("a request failed")
            return build_problem_response(error, request_id=request_id)

    async def _score(self, scope: Scope, receive: Receive, raw: bytes, request_id: str) -> ScoringResult:
        [record] = self._parser.parse_body(raw, ()).records
        [sentence] = record.sentences
        caller: Caller = scope["state"][CALLER_KEY]
        caller.check_dataset_of(sentence, field="dataset")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request runs in a task")
        self._deadlines.start(task)
        is_expired = False
        try:
            work = self._scorer.score_sentence(sentence, DEFAULT_OPTIONS, request_id=request_id)
            result = await watch_client(receive, self._backend.batcher, 1, work)
        except asyncio.CancelledError:
            is_expired = self._deadlines.end(task)
            if not is_expired or task.uncancel():
                raise
            raise build_timeout_error(self._deadlines.seconds) from None
        finally:
            if not is_expired:
                self._deadlines.end(task)
        [answer] = result.answers
        if not isinstance(answer, bytes):
            raise self._parser.locate_error(answer, record, sentence)
        return result


def _build_headers(result: ScoringResult, length: int, request_id: str) -> bytes:
    return b"server-timing: %b\r\ncontent-length: %d\r\n%bx-request-id: %b\r\n" % (
        result.server_timing.encode(),
        length,
        _FIXED_HEADERS,
        request_id.encode(),
    )


async def _send_response(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = complete_headers(message["headers"], scope["state"]["request_id"])
        await send(message)

    await response(scope, receive, send_with_headers)
