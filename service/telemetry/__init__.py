"""What is told about the service while it runs: every metric in one table, and structured logs."""

from __future__ import annotations

from service.telemetry.batch_report import BatchReport, Judged, Reporter, Standard
from service.telemetry.logs import mask, request_id, set_up_logs
from service.telemetry.recorder import Telemetry

__all__ = ["BatchReport", "Judged", "Reporter", "Standard", "Telemetry", "mask", "request_id", "set_up_logs"]
