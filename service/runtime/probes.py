"""Metrics and health on a port of their own, for processes without an API."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from service.telemetry.probe_server import ProbeServer

if TYPE_CHECKING:
    from service.runtime.supervisor import Supervisor
    from service.telemetry import Telemetry
    from service.telemetry.readiness import Conditions

logger = logging.getLogger(__name__)


def start_probes(
    supervisor: Supervisor,
    telemetry: Telemetry,
    *,
    host: str,
    port: int,
    conditions: Conditions,
    degraded: Conditions,
) -> None:
    """Starts a thread that serves /metrics, /healthz and /readyz."""
    telemetry.watch_readiness(conditions, degraded)
    probes = ProbeServer(
        telemetry,
        host=host,
        port=port,
        conditions=conditions,
        degraded=degraded,
        alive=lambda: supervisor.alive,
    )
    supervisor.start("probes", probes.run)
    logger.info("metrics on http://%s:%d/metrics, also /healthz and /readyz", probes.host, probes.port)
