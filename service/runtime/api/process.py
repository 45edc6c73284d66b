"""What the first process of the API and the scoring processes share: how they are set up and end, and threads of both."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.runtime.lifecycle.process import (
    exit_after,
    freeze_start_objects,
    restrict_new_files,
    set_up_logging,
    stop_on_signals,
)
from service.runtime.lifecycle.process_limits import MAX_STOP_S, SWITCH_INTERVAL_S

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from service.api.backend import ScoringBackend
    from service.runtime.lifecycle.supervisor import Supervisor
    from service.settings import Settings


def set_up_api_process(settings: Settings) -> None:
    set_up_logging(settings)
    restrict_new_files()
    sys.setswitchinterval(SWITCH_INTERVAL_S)


@contextmanager
def stop_in_time(supervisor: Supervisor) -> Iterator[None]:
    """Stops the threads on SIGTERM or SIGINT, and ends the process if they take too long."""
    with stop_on_signals(supervisor.stop):
        exit_after(supervisor.stop, MAX_STOP_S)
        yield


def start_scoring_threads(supervisor: Supervisor, backend: ScoringBackend, server_ended: threading.Event) -> None:
    """Starts the threads that `POST /v1/score` needs. They run until the server has ended."""
    freeze_start_objects()
    supervisor.start("model", lambda _: backend.batcher.run(server_ended))
    supervisor.start("mirror", lambda _: backend.state_view.run(server_ended))
    supervisor.start("keys", lambda _: backend.key_view.run(server_ended))
