"""What the service reports while it runs: metrics, structured logs and readiness."""

from __future__ import annotations

from service.telemetry.batch_report import BatchReport, Reporter, SentenceReport, ThresholdReport
from service.telemetry.logs import configure_logging, current_request_id, mask
from service.telemetry.metrics.recorder import Telemetry

__all__ = [
    "BatchReport",
    "Reporter",
    "SentenceReport",
    "Telemetry",
    "ThresholdReport",
    "configure_logging",
    "current_request_id",
    "mask",
]
