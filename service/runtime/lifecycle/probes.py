"""Metrics and health on a port of their own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from service.telemetry.probes.server import ProbeServer

if TYPE_CHECKING:
    from service.runtime.lifecycle.supervisor import Supervisor
    from service.telemetry import Telemetry
    from service.telemetry.readiness import Conditions

logger = logging.getLogger(__name__)


def start_probes(
    supervisor: Supervisor,
    telemetry: Telemetry,
    *,
    host: str,
    port: int,
    setting: str,
    conditions: Conditions,
    degraded: Conditions,
) -> None:
    """Starts a thread that serves /metrics, /healthz and /readyz. `setting`: the one of the port, for errors."""
    probes = ProbeServer(
        telemetry,
        host=host,
        port=port,
        setting=setting,
        conditions=conditions,
        degraded=degraded,
        alive=lambda: supervisor.alive,
    )
    supervisor.start("probes", probes.run)
    logger.info("metrics on http://%s:%d/metrics, also /healthz and /readyz", probes.host, probes.port)
