"""Spans of requests and batches, as an exporter of OpenTelemetry gets them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from service.log.protocol import CommitRefused, Output
from service.log.read import read_topic
from service.log.trace_headers import select_trace_headers
from service.stream.worker import loop
from service.telemetry.tracing import MAX_LINKS, Tracing
from tests.support.api_harness import TOPICS
from tests.support.command_harness import make_sentences

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from service.log.protocol import Headers
    from tests.support.api_harness import ApiHarness

TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACE = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01", "tracestate": "vendor=1"}


@pytest.fixture
def exporter(harness: ApiHarness) -> InMemorySpanExporter:
    """The spans of the harness's API and worker."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)
    harness.worker._tracing = tracing
    harness.serve_with(tracing=tracing)
    return exporter


def get_ids(span: ReadableSpan) -> tuple[str, str]:
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def append(harness: ApiHarness, headers: list[Headers]) -> None:
    sentences = make_sentences(len(headers), dataset="news")
    harness.log.append(
        [
            Output(TOPICS.sentences, None, json.dumps(sentence).encode(), each)
            for sentence, each in zip(sentences, headers, strict=True)
        ]
    )


def make_parents(number: int) -> list[Headers]:
    """The headers of records that as many spans have sent."""
    return [(("traceparent", f"00-{TRACE_ID}-{span_id:016x}-01".encode()),) for span_id in range(1, number + 1)]


def test_a_request_continues_its_trace(harness: ApiHarness, exporter: InMemorySpanExporter) -> None:
    (sentence,) = make_sentences(1, dataset="news")
    response = harness.client.post(
        "/v1/sentences?format=words", json=sentence, headers={**TRACE, "X-API-Key": "secret-1"}
    )
    assert response.status_code == 202, response.text
    (span,) = exporter.get_finished_spans()
    trace_id, span_id = get_ids(span)
    assert (span.name, span.kind) == ("POST /v1/sentences", SpanKind.SERVER)
    assert trace_id == TRACE_ID
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == PARENT_ID
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/sentences",
        "http.response.status_code": 202,
        "labelwatch.request_id": response.headers["X-Request-ID"],
    }
    assert not span.events
    (record,) = read_topic(harness.log, TOPICS.sentences)
    assert select_trace_headers(record.headers) == (
        ("traceparent", f"00-{TRACE_ID}-{span_id}-01".encode()),
        ("tracestate", b"vendor=1"),
    )


def test_the_batch_links_to_the_request(harness: ApiHarness, exporter: InMemorySpanExporter) -> None:
    (sentence,) = make_sentences(1, dataset="news")
    harness.client.post("/v1/sentences", json=sentence)
    (request,) = exporter.get_finished_spans()
    assert request.parent is None
    exporter.clear()
    harness.send()
    *stages, batch = exporter.get_finished_spans()
    assert (batch.name, batch.kind) == (f"process {TOPICS.sentences}", SpanKind.CONSUMER)
    assert batch.parent is None
    assert [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}") for link in batch.links] == [
        get_ids(request)
    ]
    assert batch.attributes == {
        "messaging.operation.type": "process",
        "messaging.destination.name": TOPICS.sentences,
        "messaging.batch.message_count": 1,
    }
    assert [stage.name for stage in stages] == ["decode", "tokenize", "inference", "judge", "commit"]
    assert all(stage.parent == batch.get_span_context() for stage in stages)


def test_links_are_bounded(harness: ApiHarness, exporter: InMemorySpanExporter) -> None:
    odd: list[Headers] = [(), (("traceparent", b"\xff odd"),), (("tracestate", b"vendor=1"),)]
    append(harness, [*odd, *make_parents(3), *make_parents(3)])
    harness.send()
    assert len(exporter.get_finished_spans()[-1].links) == 3
    exporter.clear()
    harness.worker._batch_size.records = 2 * MAX_LINKS
    append(harness, make_parents(MAX_LINKS + 5))
    harness.send()
    (batch,) = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.CONSUMER]
    assert len(batch.links) == MAX_LINKS


def test_a_refused_commit_is_an_error(
    harness: ApiHarness, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise CommitRefused("the lease has ended")

    monkeypatch.setattr(loop, "RETRY_INTERVAL_S", 0.0)
    append(harness, [()])
    harness.worker.apply_rebalance()
    with monkeypatch.context() as patch:
        patch.setattr(harness.log, "commit", refuse)
        harness.worker.step()
    batch = exporter.get_finished_spans()[-1]
    assert (batch.kind, batch.status.status_code) == (SpanKind.CONSUMER, StatusCode.ERROR)
    assert (batch.attributes or {})["error.type"] == "commit_refused"


def test_an_error_of_the_service(
    harness: ApiHarness, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a text that must not leave")

    monkeypatch.setattr(harness.backend.appender, "append", fail)
    (sentence,) = make_sentences(1, dataset="news")
    assert harness.client.post("/v1/sentences", json=sentence).status_code == 500
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "must not leave" not in span.to_json()


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_have_no_span(harness: ApiHarness, exporter: InMemorySpanExporter, path: str) -> None:
    harness.client.get(path)
    assert not exporter.get_finished_spans()


@pytest.mark.parametrize(("method", "name"), [("GET", "GET"), ("BREW", "HTTP")])
def test_no_route(harness: ApiHarness, exporter: InMemorySpanExporter, method: str, name: str) -> None:
    harness.client.request(method, "/no/such/path", headers={"traceparent": "odd", "tracestate": "vendor=1"})
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.parent) == (name, None)
    assert "/no/such" not in span.to_json()
