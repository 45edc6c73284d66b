"""Every error as a problem that says what to change, and no more than that."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import StreamingResponse

from service.api.http.problems import (
    PROBLEM_TYPES,
    BodyTimeoutError,
    DrainingError,
    ForbiddenError,
    MediaTypeError,
    NotFoundError,
    NotReadyError,
    OverloadedError,
    RequestError,
    ResponseTimeoutError,
    TooLargeError,
    UnauthorizedError,
    encode_problem,
    to_problem,
)
from service.errors import (
    ConflictError,
    DecodeError,
    InferenceError,
    InvalidInput,
    MessageTooLargeError,
    ModelError,
    StateError,
    StreamError,
    TooLongError,
    UnknownDatasetError,
    UnknownLabelError,
    VersionMismatchError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import httpx2 as httpx

    from tests.support.api_harness import ApiHarness

    Fail = Callable[..., httpx.Response]

KINDS: list[tuple[Exception, int]] = [
    (DecodeError("x"), 400),
    (InvalidInput("x", field="labels"), 422),
    (TooLongError("x", field="tokens"), 422),
    (UnknownLabelError("x", field="labels", word=2), 422),
    (InferenceError("x"), 422),
    (UnauthorizedError("x"), 401),
    (ForbiddenError("x"), 403),
    (NotFoundError("x"), 404),
    (UnknownDatasetError("x", field="name"), 404),
    (ConflictError("x"), 409),
    (VersionMismatchError("x"), 412),
    (BodyTimeoutError("x"), 408),
    (TooLargeError("x"), 413),
    (MessageTooLargeError("x", field="sentences.1"), 413),
    (MediaTypeError("x"), 415),
    (OverloadedError("x", retry_after=7), 429),
    (DrainingError("x"), 503),
    (NotReadyError("x"), 503),
    (StreamError("x"), 503),
    (ResponseTimeoutError("x"), 504),
    (TimeoutError("x"), 504),
    (ModelError("secret"), 500),
    (StateError("secret"), 503),
    (ZeroDivisionError("secret"), 500),
]
RETRIED = {429, 503, 504}
PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    409: "Conflict",
    412: "Precondition Failed",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


@pytest.fixture(scope="module")
def failing(quiet: ApiHarness) -> Fail:
    """Calls a route that raises the given error."""
    errors: list[Exception] = []

    async def fail() -> None:
        raise errors.pop()

    quiet.app.add_api_route("/v1/fails", fail)

    def call(error: Exception, **headers: str) -> httpx.Response:
        errors.append(error)
        return quiet.client.get("/v1/fails", headers=headers)

    return call


@pytest.mark.parametrize(("error", "status"), KINDS, ids=lambda value: type(value).__name__)
def test_each_error_has_its_status(failing: Fail, error: Exception, status: int) -> None:
    answer = failing(error, **{"X-Request-ID": "mine"})
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"].startswith("urn:labelwatch:problem:")
    assert problem["title"] == PHRASES[status]
    assert problem["request_id"] == answer.headers["X-Request-ID"] == "mine"
    assert problem.get("field") == getattr(error, "field", None)
    assert ("Retry-After" in answer.headers) == (status in RETRIED)
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "X-Content-Type-Options" in answer.headers


def test_the_table_is_complete() -> None:
    kinds = {kind for kind, _, _ in PROBLEM_TYPES}
    assert len(kinds) == len(PROBLEM_TYPES)
    statuses = {(slug, status) for _, status, slug in PROBLEM_TYPES}
    slugs = {slug for slug, _ in statuses}
    assert len(slugs) == len(statuses)  # a problem type has one status
    assert all(slugs)
    assert {int(status) for _, status in statuses} <= set(PHRASES)
    missing = [kind for kind in RequestError.__subclasses__() if kind not in kinds]
    assert not missing
    # A subclass after its base class would never match.
    for index, (kind, _, _) in enumerate(PROBLEM_TYPES):
        assert not any(issubclass(kind, earlier) for earlier, _, _ in PROBLEM_TYPES[:index])


def test_the_response_says_how_long_to_wait(failing: Fail) -> None:
    assert failing(OverloadedError("x", retry_after=7)).headers["Retry-After"] == "7"


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), ModelError("secret"), StateError("secret")])
def test_the_log_has_what_the_answer_leaves_out(
    failing: Fail, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    with caplog.at_level(logging.ERROR):
        answer = failing(error)
    assert "service's log" in answer.json()["detail"]
    assert "secret" in caplog.text


def test_the_log_has_it_on_the_fast_path_too(
    quiet: ApiHarness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ModelError("secret")

    monkeypatch.setattr(quiet.backend.state_view, "get_context", broken)
    with caplog.at_level(logging.ERROR):
        answer = quiet.client.post("/v1/score", json={"tokens": ["a"], "labels": ["O"]})
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert "secret" in caplog.text


def test_a_queue_whose_file_is_gone_is_not_ready(harness: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise StateError("the review queue at secret failed: disk I/O error")

    monkeypatch.setattr(harness.backend.queue, "get_page", gone)
    answer = harness.client.get("/v1/review")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:labelwatch:problem:not-ready")
    assert "secret" not in answer.text


def test_a_response_that_breaks_off_does_not_look_complete(quiet: ApiHarness) -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b"one"
        raise ZeroDivisionError

    async def streaming() -> StreamingResponse:
        return StreamingResponse(half())

    quiet.app.add_api_route("/v1/half", streaming)
    strict = type(quiet.client)(quiet.app)
    with pytest.raises(ZeroDivisionError):
        strict.get("/v1/half")


@pytest.mark.parametrize(
    ("method", "path", "more", "status", "detail"),
    [
        ("GET", "/v1/no-such-thing", {}, 404, "there is no such path: see /docs"),
        ("GET", "/v1/datasets/", {}, 404, "there is no such path: see /docs"),
        ("DELETE", "/v1/model", {}, 405, "the path does not accept this method, only GET: see /docs"),
        ("GET", "/v1/review?limit=0", {}, 422, "`limit`: '0': give at least 1"),
        ("GET", "/v1/review?limit=9999999", {}, 422, "give at most"),
        ("GET", "/v1/review?limit=many", {}, 422, "`limit`: 'many': give a whole number"),
        (
            "GET",
            "/v1/review?dataset=No!",
            {},
            422,
            "`dataset`: 'No!' can't be the name of a dataset: a name has 1 to 64",
        ),
        ("POST", "/v1/webhooks/label-studio?dataset=No!", {"json": {}}, 422, "lower-case letters"),
        ("GET", "/v1/review?given=" + "x" * 600, {}, 422, "…': give at most 512 characters"),
        ("GET", "/v1/review?reviewer=", {}, 422, "give at least 1 character"),
        ("DELETE", "/v1/review/x/y/claim", {}, 422, "`reviewer`: it is missing"),
        ("GET", "/v1/review?after=nonsense", {}, 422, "cursor"),
        ("GET", "/v1/review?kind=odd", {}, 422, "`kind`: 'odd': choose one of missed, spurious, type, boundary"),
        ("GET", "/v1/datasets/UPPER", {}, 422, "`name`: 'UPPER' can't be the name of a dataset"),
        (
            "POST",
            "/v1/decisions",
            {"json": {"id": "a"}},
            422,
            "`reviewer`: it is missing: give it; `verdict`: it is missing: give it",
        ),
        ("POST", "/v1/decisions", {"json": {"id": "a", "reviewer": "r", "verdict": "no"}}, 422, "error, ok, unsure"),
        ("PUT", "/v1/datasets/x", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "not JSON"),
        ("PUT", "/v1/datasets/x", {"json": [1]}, 400, "not a JSON object"),
        ("PUT", "/v1/datasets/x", {"content": b"{}"}, 415, "application/json"),
        ("PUT", "/v1/datasets/x", {"data": {"a": "b"}}, 415, "x-www-form-urlencoded"),
        (
            "PUT",
            "/v1/datasets/x",
            {"content": b'{"method": "\xff"}', "headers": {"Content-Type": "application/json"}},
            400,
            "the body is not UTF-8 (byte 0xff at 12): encode it as UTF-8",
        ),
        ("PUT", "/v1/datasets/x", {"content": b"{}", "headers": {"Content-Type": "application/x-ndjson"}}, 415, "one"),
    ],
)
def test_requests_that_break_a_rule(
    quiet: ApiHarness, *, method: str, path: str, more: dict[str, Any], status: int, detail: str
) -> None:
    answer = quiet.client.request(method, path, **more)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in answer.json()["detail"]


def test_deep_nesting_is_refused(quiet: ApiHarness) -> None:
    deep = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    headers = {"Content-Type": "application/json"}
    assert quiet.client.put("/v1/datasets/x", content=deep, headers=headers).status_code == 400


@pytest.mark.parametrize("sent", ["abc-1.2_3:x", "a" * 128])
def test_a_request_keeps_its_id(quiet: ApiHarness, sent: str) -> None:
    assert quiet.client.get("/healthz", headers={"X-Request-ID": sent}).headers["X-Request-ID"] == sent


@pytest.mark.parametrize("sent", ["", "a b", "a" * 129, "<script>", "ä", 'a"b'])
def test_an_id_that_could_do_harm_is_replaced(quiet: ApiHarness, sent: str) -> None:
    answer = quiet.client.get("/healthz", headers={b"X-Request-ID": sent.encode("latin-1")})
    generated = answer.headers["X-Request-ID"]
    assert generated != sent
    assert len(generated) == 32


def test_text_that_cannot_be_encoded_can_still_be_quoted() -> None:
    assert b"\\ud800" in encode_problem(to_problem(InvalidInput("it holds \ud800")))


CONSOLE = {"Sec-Fetch-Site": "same-origin"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "level"),
    [
        ("GET", "/healthz", {}, logging.DEBUG),
        ("GET", "/", {}, logging.DEBUG),
        ("GET", "/console/app.js", {}, logging.DEBUG),
        ("GET", "/console/no-such.js", {}, logging.INFO),
        ("GET", "/v1/review", CONSOLE, logging.DEBUG),
        ("GET", "/v1/review", {}, logging.INFO),
        ("GET", "/v1/review", {"Sec-Fetch-Site": "none"}, logging.INFO),
        ("GET", "/v1/review?limit=0", CONSOLE, logging.INFO),
        ("POST", "/v1/decisions", CONSOLE, logging.INFO),
    ],
)
def test_routine_requests_do_not_fill_the_log(
    quiet: ApiHarness,
    caplog: pytest.LogCaptureFixture,
    *,
    method: str,
    path: str,
    headers: dict[str, str],
    level: int,
) -> None:
    with caplog.at_level(logging.DEBUG, logger="service.api.http.middleware.request_context"):
        quiet.client.request(method, path, headers=headers)
    assert [record.levelno for record in caplog.records if record.message == "answered"] == [level]
