"""Spans of requests and worker batches for OpenTelemetry. Imported only if tracing is on: it needs `labelwatch[otel]`.

Spans have no query, key, path or text, and no message of an error: it may quote a sentence.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service import __version__
from service.telemetry.metrics.recorder import METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opentelemetry.trace import Span, Tracer

    from service.telemetry.batch_report import BatchReport

    RawHeaders = Sequence[tuple[bytes, bytes]]
    RecordHeaders = Sequence[tuple[str, bytes]]

MAX_LINKS: Final = 128  # per batch span; the SDK keeps no more by default
OTHER_METHOD: Final = "_OTHER"
TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def build_provider() -> TracerProvider:
    """Sends spans with OTLP over HTTP. The standard OTEL_* variables name the endpoint, sampler and resource."""
    detected = OTELResourceDetector().detect().attributes
    resource = Resource.create({"service.name": "labelwatch", "service.version": __version__, **detected})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class RequestSpan:
    """The server span of one request."""

    def __init__(self, span: Span, method: str) -> None:
        self._span = span
        self._method = method

    def replace_trace_headers(self, headers: RawHeaders) -> list[tuple[bytes, bytes]]:
        """The request's headers with this span as the parent, for the messages that the request appends."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(self._span, Context()))
        kept = [pair for pair in headers if pair[0] not in (TRACE_PARENT.encode(), TRACE_STATE.encode())]
        return kept + [(name.encode(), value.encode("latin-1")) for name, value in carrier.items()]

    def end(self, *, route: str, status: int) -> None:
        span = self._span
        if route:
            method = "HTTP" if self._method == OTHER_METHOD else self._method
            span.update_name(f"{method} {route}")
            span.set_attribute("http.route", route)
        span.set_attribute("http.response.status_code", status)
        if status >= 500:
            span.set_attribute("error.type", str(status))
            span.set_status(StatusCode.ERROR)
        span.end()


class Tracing:
    """Starts spans. Safe to use from several threads."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer: Tracer = provider.get_tracer("labelwatch", __version__)

    def start_request(self, headers: RawHeaders, method: str, request_id: str) -> RequestSpan:
        """Continues the trace of the request's headers, or starts one."""
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (TRACE_PARENT.encode(), TRACE_STATE.encode())
        }
        known = method if method in METHODS else OTHER_METHOD
        span = self._tracer.start_span(
            "HTTP" if known == OTHER_METHOD else known,
            context=_PROPAGATOR.extract(carrier, Context()),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": known, "labelwatch.request_id": request_id},
        )
        return RequestSpan(span, known)

    @contextmanager
    def trace_batch(self, topic: str, headers: Iterable[RecordHeaders], report: BatchReport) -> Iterator[None]:
        """A span for the block, with a child for each stage of the report. `headers`: those of each record.

        A batch has many traces: the span links to them and is part of none.
        """
        span = self._tracer.start_span(
            f"process {topic}",
            context=Context(),
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.operation.type": "process",
                "messaging.destination.name": topic,
                "messaging.batch.message_count": report.records,
            },
            links=_build_links(headers),
        )
        parent = set_span_in_context(span, Context())

        def add_stage(stage: str, seconds: float) -> None:
            now = time.time_ns()
            self._tracer.start_span(stage, context=parent, start_time=now - int(1e9 * seconds)).end(now)

        report.on_stage = add_stage
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(StatusCode.ERROR)
            raise
        finally:
            if report.refused:
                span.set_attribute("error.type", "commit_refused")
                span.set_status(StatusCode.ERROR)
            span.end()


def _build_links(headers: Iterable[RecordHeaders]) -> list[Link]:
    """Links to the spans that sent the records, each once. Headers that are not valid have none."""
    links: dict[tuple[int, int], Link] = {}
    for record_headers in headers:
        carrier = {
            name: value.decode("latin-1") for name, value in record_headers if name in (TRACE_PARENT, TRACE_STATE)
        }
        if not carrier:
            continue
        sender = get_current_span(_PROPAGATOR.extract(carrier, Context())).get_span_context()
        if sender.is_valid:
            links.setdefault((sender.trace_id, sender.span_id), Link(sender))
        if len(links) == MAX_LINKS:
            break
    return list(links.values())
