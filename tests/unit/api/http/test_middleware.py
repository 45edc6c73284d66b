"""What may come in: how much, how long, from where, and when."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import JSONResponse, StreamingResponse

from tests.support.scoring_harness import AsgiExchange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from starlette.requests import Request

    from tests.support.api_harness import ApiHarness

WAIT_S = 60.0  # only a hang takes as long
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}


def in_parts(size: int, part: int = 100) -> Iterator[bytes]:
    """Sent in chunks: without a length that could be looked at before."""
    for _ in range(0, size, part):
        yield b" " * part


def test_a_body_over_the_limit_is_refused_by_its_length(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(max_body_bytes=1000)
    answer = client.put("/v1/datasets/x", content=b"{}" + b" " * 999, headers=JSON)
    assert (answer.status_code, answer.json()["type"]) == (413, "urn:labelwatch:problem:too-large")
    assert "LABELWATCH_API_MAX_BODY_BYTES" in answer.json()["detail"]
    assert client.put("/v1/datasets/x", content=b"{}" + b" " * 998, headers=JSON).status_code == 201


def test_a_packed_body_is_refused_before_it_is_read(harness: ApiHarness) -> None:
    packed = gzip.compress(b'{"tokens": ["Oslo"], "labels": ["O"]}' + b" " * 15_000_000)
    for path in ("/v1/score", "/v1/sentences"):
        for kind in (JSON, NDJSON):
            answer = harness.client.post(path, content=packed, headers={**kind, "Content-Encoding": "gzip"})
            assert (answer.status_code, answer.json()["type"]) == (415, "urn:labelwatch:problem:media-type")
            assert answer.json()["detail"] == "Content-Encoding gzip: send the body as it is, not packed"
    plain = harness.client.put("/v1/datasets/x", content=b"{}", headers={**JSON, "Content-Encoding": "identity"})
    assert plain.status_code == 201


def test_a_body_in_chunks_is_counted(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(max_body_bytes=1000)
    answer = client.put("/v1/datasets/x", content=in_parts(5000), headers=JSON)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    small = client.put("/v1/datasets/x", content=iter([b"{", b"}"]), headers=JSON)
    assert small.status_code == 201


def test_bodies_of_all_requests_share_a_budget(harness: ApiHarness) -> None:
    """100 clients that each held back the last byte of 16 MB took 1.6 GB."""
    harness.serve_with_limits(max_pending_body_bytes=100_000)
    budget = harness.app.state.body_budget

    async def overload() -> None:
        slow = AsgiExchange(harness.app, "/v1/sentences", content_type="application/json")
        async with slow:
            slow.send_lines(b"{" + b" " * 130_000)
            async with asyncio.timeout(WAIT_S):
                while not budget.used_bytes:
                    await asyncio.sleep(0.001)
            refused = await asyncio.to_thread(
                harness.client.put, "/v1/datasets/x", content=b"{}" + b" " * 120_000, headers=JSON
            )
            assert (refused.status_code, refused.json()["type"]) == (429, "urn:labelwatch:problem:overloaded")
            assert "LABELWATCH_API_MAX_PENDING_BODY_BYTES" in refused.json()["detail"]
            assert (refused.headers["connection"], int(refused.headers["retry-after"]) > 0) == ("close", True)
            parts = await asyncio.to_thread(
                harness.client.put, "/v1/datasets/x", content=in_parts(120_000, 10_000), headers=JSON
            )
            assert (parts.status_code, parts.headers["connection"]) == (429, "close")
            small = await asyncio.to_thread(
                harness.client.put, "/v1/datasets/x", content=b"{}" + b" " * 60_000, headers=JSON
            )
            assert small.status_code in (200, 201)
            slow.disconnect()

    asyncio.run(overload())
    assert budget.used_bytes == 0
    large = harness.client.put("/v1/datasets/x", content=b"{}" + b" " * 120_000, headers=JSON)
    assert large.status_code == 200


def test_lines_have_their_own_limit(harness: ApiHarness) -> None:
    async def reading(request: Request) -> JSONResponse:
        return JSONResponse(sum([len(part) async for part in request.stream()]))

    client = harness.serve_with_limits(max_body_bytes=1000, max_stream_bytes=3000)
    harness.app.add_route("/v1/reads", reading, methods=["POST"])
    assert client.post("/v1/reads", content=in_parts(3000), headers=NDJSON).json() == 3000
    answer = client.post("/v1/reads", content=in_parts(3001), headers=NDJSON)
    assert (answer.status_code, "MAX_STREAM_BYTES" in answer.text) == (413, True)
    assert client.post("/v1/reads", content=in_parts(1001), headers=JSON).status_code == 413


def test_a_list_over_the_limit_is_refused(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(max_sentences=2)
    decision = {"id": "a", "reviewer": "anna", "verdict": "ok"}
    answer = client.post("/v1/decisions", json={"decisions": [decision] * 3})
    assert (answer.status_code, answer.json()["field"]) == (413, "decisions")


def test_a_request_that_takes_too_long_is_ended(harness: ApiHarness) -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("slow")
            raise

    client = harness.serve_with_limits(timeout_s=0.05)
    harness.app.add_api_route("/v1/slow", slow)
    answer = client.get("/v1/slow")
    assert (answer.status_code, answer.json()["type"]) == (504, "urn:labelwatch:problem:timeout")
    assert "Retry-After" in answer.headers
    assert ended == ["slow"]


@pytest.mark.parametrize("path", ["/v1/score", "/v1/decisions"])
def test_a_body_that_stalls_gets_408(harness: ApiHarness, path: str) -> None:
    """It is not the service that took long."""
    harness.serve_with_limits(timeout_s=0.05)
    sent: list[Any] = []
    messages = iter([{"type": "http.request", "body": b'{"tokens": [', "more_body": True}])

    async def receive() -> Any:
        message = next(messages, None)
        return message if message is not None else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"host", b"labelwatch")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asyncio.run(harness.app(scope, receive, send))
    start, body = sent
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    problem = json.loads(body["body"])
    assert problem["type"] == "urn:labelwatch:problem:idle"
    assert "LABELWATCH_API_TIMEOUT_S" in problem["detail"]


def test_a_log_that_hangs_is_not_waited_for(harness: ApiHarness) -> None:
    class Hanging:
        def append_if_unchanged(self, output: object, expected: object, **more: object) -> None:
            time.sleep(0.5)

    harness.serve_with_limits(timeout_s=0.05)
    assert harness.serve_with(append_to=Hanging()).put("/v1/datasets/x", json={}).status_code == 504


def test_a_response_that_has_begun_is_not_cut_off(harness: ApiHarness) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x"
            await asyncio.sleep(0.05)

    async def streaming() -> StreamingResponse:
        return StreamingResponse(parts())

    client = harness.serve_with_limits(timeout_s=0.1)
    harness.app.add_api_route("/v1/parts", streaming)
    assert client.get("/v1/parts").content == b"xxxx"


def test_a_draining_service_rejects_requests(harness: ApiHarness) -> None:
    harness.backend.draining.set()
    for method, path in (("GET", "/v1/review"), ("POST", "/v1/sentences"), ("GET", "/v1/events")):
        answer = harness.client.request(method, path)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:labelwatch:problem:draining")
        assert answer.headers["Retry-After"]
        assert answer.headers["Connection"] == "close"
    assert harness.client.get("/healthz").status_code == 200
    turned_away = harness.backend.telemetry.registry.get_sample_value(
        "labelwatch_overload_total", {"reason": "draining"}
    )
    assert turned_away == 3


def test_an_origin_must_be_configured(harness: ApiHarness) -> None:
    preflight = {"Origin": "https://tool.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in harness.client.get("/v1/model", headers=preflight).headers
    assert harness.client.options("/v1/decisions", headers=preflight).status_code == 403
    client = harness.serve_with_limits(cors_origins="https://tool.example/, https://other.example")
    assert client.get("/v1/model", headers=preflight).headers["access-control-allow-origin"] == "https://tool.example"
    allowed = client.options("/v1/decisions", headers=preflight)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://tool.example"
    foreign = client.get("/v1/model", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in foreign.headers


def test_a_preflight_needs_no_key(harness: ApiHarness) -> None:
    client = harness.serve_with_limits(cors_origins="https://tool.example", keys=f"a:read:{'0' * 64}")
    preflight = {"Origin": "https://tool.example", "Access-Control-Request-Method": "POST"}
    assert client.options("/v1/decisions", headers=preflight).status_code == 200
    assert client.get("/v1/model", headers=preflight).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/v1/model", "/v1/none", "/docs", "/metrics"])
def test_every_response_has_the_security_headers(quiet: ApiHarness, path: str) -> None:
    headers = quiet.client.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Request-ID"]


def test_requests_are_counted_by_pattern_never_by_path(quiet: ApiHarness) -> None:
    for path in ("/v1/review/default/a", "/v1/review/default/b%2Fc", "/v1/nonsense/1", "/v1/nonsense/2"):
        assert quiet.client.get(path).status_code == 404
    metrics = quiet.client.get("/metrics").text
    counted = [line for line in metrics.splitlines() if line.startswith("labelwatch_http_requests_total")]
    assert any('route="/v1/review/{dataset}/{id}"' in line and line.endswith(" 2.0") for line in counted)
    assert "nonsense" not in metrics
    # Every operation stands there from the first scrape on.
    assert any('route="/v1/decisions"' in line and line.endswith(" 0.0") for line in counted)
