"""The text of the metrics is that of the client library, to the byte."""

from __future__ import annotations

import math

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import generate_latest

from service.telemetry import Telemetry
from service.telemetry.metrics.exposition import ExpositionWriter

VALUES = (0, 1, -1, 0.1, 1e-7, 123_456.0, 999_999.5, 1e6, 1_234_567.0, 1e22, -5e9, math.inf, -math.inf, math.nan)


def test_it_is_what_the_client_writes() -> None:
    Telemetry()  # it turns off the creation times of counters
    registry = CollectorRegistry()
    gauge = Gauge("value", "With a \\ and\na line", ["zeta", "alpha"], registry=registry)
    for number, value in enumerate(VALUES):
        gauge.labels(f'quote" {number}', "back\\slash\nline ü").set(value)
    Counter("done", "A counter", registry=registry).inc(3)
    Info("build", "An info", registry=registry).info({"version": "1"})
    histogram = Histogram("seconds", "A histogram", ["stage"], registry=registry)
    histogram.labels("judge").observe(0.02)
    writer = ExpositionWriter()
    assert writer.write(registry) == generate_latest(registry)
    histogram.labels("judge").observe(3)
    gauge.clear()
    gauge.labels("new", "one").set(2_500_000)
    assert writer.write(registry) == generate_latest(registry)  # with the texts of the first time


def test_it_is_what_the_client_writes_of_the_service() -> None:
    telemetry = Telemetry()
    telemetry.register_dataset("news", ("O", "B-PER", "I-PER"))
    telemetry.observe_stages("api", {"judge": 0.01})
    text, _ = telemetry.render_exposition()

    def drop_process_lines(exposition: bytes) -> list[bytes]:
        return [line for line in exposition.splitlines() if not line.startswith((b"process_", b"python_gc"))]

    assert drop_process_lines(text) == drop_process_lines(generate_latest(telemetry.registry))
