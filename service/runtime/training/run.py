"""Runs the trainer: as a thread of `labelwatch up`, or as the process `labelwatch trainer`."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from service.datasets.training_view import TrainingView
from service.inference.model.registry import ModelRegistry
from service.runtime.datasets.settings import build_datasets
from service.runtime.lifecycle.lease import open_lease
from service.runtime.lifecycle.probes import start_probes
from service.runtime.lifecycle.process import limit_stop_time, restrict_new_files, set_up_logging, stop_on_signals
from service.runtime.lifecycle.process_limits import MAX_STOP_S
from service.runtime.lifecycle.supervisor import Supervisor
from service.runtime.load_model import build_model_pool
from service.runtime.open_log import build_topics, open_log, warn_of_missing_log
from service.runtime.training.trainer import Trainer
from service.settings import find_unknown_variables
from service.stream.state.view import StateView
from service.telemetry import Telemetry
from service.telemetry.readiness import merge_conditions

if TYPE_CHECKING:
    import threading

    from service.settings import Settings

logger = logging.getLogger(__name__)


def run_trainer_thread(
    settings: Settings,
    stop: threading.Event,
    *,
    state_view: StateView,
    training_view: TrainingView,
    telemetry: Telemetry | None,
) -> None:
    """The trainer beside threads that run both views."""
    topics = build_topics(settings)
    with closing(open_log(settings)) as log, closing(open_lease(settings, topics.models, name="trainer")) as lease:
        Trainer(
            settings.trainer,
            topics,
            log=log,
            registry=ModelRegistry(settings.models.path),
            state_view=state_view,
            training_view=training_view,
            lease=lease,
            auto=settings.trainer.is_auto(with_trainer=True),
            telemetry=telemetry,
        ).run(stop)


def run_trainer(settings: Settings) -> str:
    """Runs a trainer until SIGTERM or Ctrl-C. Returns a summary."""
    set_up_logging(settings)
    restrict_new_files()
    for name in find_unknown_variables(os.environ):
        logger.warning("%s is not a setting: correct its name or remove it", name)
    warn_of_missing_log(settings)
    topics, supervisor = build_topics(settings), Supervisor()
    telemetry = None if settings.trainer.metrics_port is None else Telemetry()
    with ExitStack() as stack:
        state_log, training_log = (stack.enter_context(closing(open_log(settings))) for _ in range(2))
        state_view = StateView(state_log, topics, build_datasets(settings, build_model_pool(settings)))
        training_view = TrainingView(training_log, topics.models)
        stack.enter_context(stop_on_signals(supervisor.stop))
        stack.enter_context(limit_stop_time(supervisor.stop, MAX_STOP_S))
        if telemetry is not None:
            _start_probes(settings, supervisor, telemetry, state_view)
        supervisor.start("mirror", state_view.run)
        supervisor.start("trainings", training_view.run)
        supervisor.start(
            "trainer",
            lambda stop: run_trainer_thread(
                settings, stop, state_view=state_view, training_view=training_view, telemetry=telemetry
            ),
        )
        logger.info("the trainer is running; models go to %s", settings.models.path)
        supervisor.wait()
    return "the trainer has stopped"


def _start_probes(settings: Settings, supervisor: Supervisor, telemetry: Telemetry, state_view: StateView) -> None:
    """Serves metrics and health on the trainer's own port."""

    def conditions() -> dict[str, str]:
        started = "" if state_view.caught_up else "settings and statistics are not read yet"
        return merge_conditions({"state": started}, supervisor.conditions)

    def degraded() -> dict[str, str]:
        return {"broker": state_view.broker_error or "", "state": state_view.state_error or ""}

    telemetry.watch_readiness(conditions, degraded)
    start_probes(
        supervisor,
        telemetry,
        host=settings.trainer.metrics_host,
        port=settings.trainer.metrics_port or 0,
        setting="LABELWATCH_TRAINER_METRICS_PORT",
        conditions=conditions,
        degraded=degraded,
    )
