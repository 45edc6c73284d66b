"""Builds what the API works with: queue, model batcher, state view and log, and their readiness."""

from __future__ import annotations

import math
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

from service.access.audit_log import AuditView
from service.access.key_view import KeyView
from service.api.backend import Backend
from service.api.batching.batcher import MicroBatcher
from service.api.ingest.delivery_file import DeliveryFile
from service.api.ingest.log_appender import LogAppender
from service.api.ingest.webhook_deliveries import WebhookDeliveries
from service.api.reviewer_limit import AcceptedReviewers
from service.api.routes.health import get_conditions, get_degraded
from service.datasets.training_view import TrainingView
from service.errors import SettingsError
from service.log.dead_letter_index import DeadLetterIndex
from service.log.sqlite.guard import LogFileGuard, describe_full_disk
from service.review.annotator_figures import build_dataset_annotators
from service.review.projection.projector import ReviewProjector
from service.review.queue.queue import ReviewQueue
from service.runtime.datasets.settings import build_datasets
from service.runtime.open_log import build_topics, compute_max_append_s, open_log
from service.runtime.webhooks import build_admin
from service.stream.state.view import StateView
from service.telemetry.readiness import merge_conditions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.inference.model.pool import ModelPool
    from service.runtime.lifecycle.supervisor import Supervisor
    from service.runtime.scoring.process import ScoringProcess
    from service.runtime.worker import WorkerRunner
    from service.settings import ApiSettings, Settings
    from service.telemetry import Telemetry
    from service.telemetry.tracing import Tracing


def build_backend(
    settings: Settings,
    models: ModelPool,
    telemetry: Telemetry,
    supervisor: Supervisor,
    *,
    exit_stack: ExitStack,
    runner: WorkerRunner | None,
    tracing: Tracing | None = None,
    processes: Sequence[ScoringProcess] = (),
) -> Backend:
    """Opens queue and logs on the exit stack, and wires readiness and metrics. `runner`: the worker of `labelwatch up`."""
    topics, api = build_topics(settings), divide_limits(settings.api)
    queue = exit_stack.enter_context(closing(_open_queue(settings)))
    # One log per thread, so that none waits for another.
    request_log, state_log, training_log, key_log, audit_log, projection_log, letter_log = (
        exit_stack.enter_context(closing(open_log(settings))) for _ in range(7)
    )
    batcher = build_batcher(api, models)
    disks = DiskWatch(settings, queue.file.path)
    projector = ReviewProjector(projection_log, topics, queue.file, get_disk_error=disks.describe_queue_disk)
    worker = None if runner is None else WorkerReadiness(runner)

    def conditions() -> dict[str, str]:
        return merge_conditions(
            {"model": batcher.unavailable_reason},
            {process.name: process.status for process in processes},
            supervisor.conditions,
            worker.get_conditions() if worker else {},
        )

    def degraded() -> dict[str, str]:
        return merge_conditions(
            {"review": projector.error}, disks.get_degraded(), worker.get_degraded() if worker else {}
        )

    state_view = StateView(state_log, topics, build_datasets(settings, models))
    appender = LogAppender(
        request_log, request_timeout_s=api.timeout_s, get_broker_error=lambda: state_view.broker_error
    )
    exit_stack.callback(appender.close)
    backend = Backend(
        settings=api,
        state_view=state_view,
        training_view=TrainingView(training_log, topics.models),
        key_view=KeyView(key_log, topics.keys),
        audit_view=AuditView(audit_log, topics.audit),
        batcher=batcher,
        queue=queue,
        projector=projector,
        appender=appender,
        accepted_reviewers=AcceptedReviewers(compute_max_append_s(settings)),
        deliveries=WebhookDeliveries(exit_stack.enter_context(closing(DeliveryFile(settings.deliveries_path)))),
        dead_letters=exit_stack.enter_context(closing(DeadLetterIndex(letter_log, topics))),
        open_log=lambda: open_log(settings),
        topics=topics,
        models=models,
        telemetry=telemetry,
        tracing=tracing,
        webhooks=build_admin(settings, request_log, topics) if settings.webhooks.key.get_secret_value() else None,
        max_words=settings.worker.max_words,
        auto_train=settings.trainer.is_auto(with_trainer=runner is not None),
        min_training_sentences=settings.trainer.min_sentences,
        open_metrics=settings.metrics.open,
        conditions=conditions,
        degraded=degraded,
        draining=supervisor.stop,
    )
    telemetry.watch_readiness(lambda: get_conditions(backend), lambda: get_degraded(backend))
    telemetry.watch_queue(lambda: batcher.waiting)
    if processes:
        telemetry.add_processes(partial(_collect_process_metrics, processes))
    telemetry.on_scrape(lambda: report_review_metrics(telemetry, queue))
    if telemetry.review.names_annotators:
        telemetry.on_scrape(lambda: _report_annotators(telemetry, state_view, queue, min_f1=api.annotator_min_f1))
    if runner is None:
        telemetry.on_scrape(
            lambda: telemetry.set_waiting({each.name: each.sentences for each in state_view.list_waiting()})
        )
    return backend


def build_batcher(api: ApiSettings, models: ModelPool) -> MicroBatcher:
    return MicroBatcher(
        models.get_classifier(models.default),
        queue_sentences=api.queue_sentences,
        batch_tokens=api.batch_tokens,
        max_delay=api.max_delay_ms / 1000,
    )


def divide_limits(api: ApiSettings) -> ApiSettings:
    """The settings of one process: each has its share of what waits in memory. The largest body allowed fits in any."""
    return api.model_copy(
        update={
            "queue_sentences": math.ceil(api.queue_sentences / api.processes),
            "max_pending_body_bytes": max(
                math.ceil(api.max_pending_body_bytes / api.processes),
                min(api.max_body_bytes, api.max_pending_body_bytes),
            ),
        }
    )


def _collect_process_metrics(processes: Sequence[ScoringProcess]) -> list[bytes]:
    for process in processes:
        process.request_metrics()
    return [process.wait_for_metrics() for process in processes]


class DiskWatch:
    """What can't be written now, and why. Scoring and reading go on meanwhile."""

    def __init__(self, settings: Settings, queue_path: Path) -> None:
        """The embedded log must be open."""
        self._reserve_bytes = settings.log.reserve_bytes
        self._queue_folder = queue_path.parent
        is_embedded = settings.kafka is None
        self._log_file = LogFileGuard(settings.log.path, reserve_bytes=self._reserve_bytes) if is_embedded else None

    def describe_queue_disk(self) -> str:
        return describe_full_disk(self._queue_folder, self._reserve_bytes)

    def get_degraded(self) -> dict[str, str]:
        log_file = self._log_file
        if log_file is None:
            return {"disk": self.describe_queue_disk()}
        return {"log": log_file.lost_reason, "disk": log_file.full_reason or self.describe_queue_disk()}


def report_review_metrics(telemetry: Telemetry, queue: ReviewQueue) -> None:
    """Sets the gauges of the queue, of the datasets that have metrics of their own."""
    states, verdicts = queue.count_items_by_dataset(), queue.count_verdicts_by_dataset()
    for dataset in filter(telemetry.review.has_own_label, sorted({*states, *verdicts})):
        telemetry.review.set_counts(dataset, states=states.get(dataset, {}), verdicts=verdicts.get(dataset, {}))
        recall = queue.estimate_recall(dataset)
        telemetry.review.set_recall(dataset, estimate=recall.recall, low=recall.low, high=recall.high)
        agreement = queue.measure_agreement(dataset)
        telemetry.review.set_agreement(dataset, kappa=agreement.kappa, f1=agreement.f1, items=agreement.items)
    pairs = queue.compute_pair_precision()
    telemetry.review.set_precision(
        {(pair.dataset, pair.given, pair.suggested, pair.method): (pair.right, pair.decided) for pair in pairs}
    )


def _report_annotators(telemetry: Telemetry, view: StateView, queue: ReviewQueue, *, min_f1: float) -> None:
    """F1 where it is shown over REST too: where the dataset's model is good enough."""
    f1 = {}
    for dataset in view.list_names():
        figures = build_dataset_annotators(view, queue, dataset, min_f1=min_f1)
        f1[dataset] = {
            each.annotator: (each.f1, each.low, each.high)
            for each in figures.annotators
            if each.f1 is not None and each.low is not None and each.high is not None
        }
    telemetry.review.set_annotator_f1(f1)


def _open_queue(settings: Settings) -> ReviewQueue:
    try:
        return ReviewQueue(settings.queue_path)
    except SettingsError as error:
        raise SettingsError(f"LABELWATCH_API_QUEUE_PATH: {error}") from error


class WorkerReadiness:
    """How the worker of `labelwatch up` affects readiness.

    The service is not ready before the worker was ready once. Later problems of the worker only degrade it, since the
    API can answer without the worker.
    """

    def __init__(self, runner: WorkerRunner) -> None:
        self._runner = runner
        self._was_ready = False

    def get_conditions(self) -> dict[str, str]:
        conditions = {
            "worker" if name == "worker" else f"worker_{name}": reason
            for name, reason in self._runner.get_conditions().items()
        }
        self._was_ready = self._was_ready or not any(conditions.values())
        return dict.fromkeys(conditions, "") if self._was_ready else conditions

    def get_degraded(self) -> dict[str, str]:
        reasons = {reason for reason in self._runner.get_conditions().values() if reason}
        own = {"worker": "; ".join(sorted(reasons))} if self._was_ready else {}
        # The API reports waiting datasets itself, whether the worker is in its process or not.
        of_worker = {name: reason for name, reason in self._runner.get_degraded().items() if name != "waiting"}
        return {**own, **of_worker}
