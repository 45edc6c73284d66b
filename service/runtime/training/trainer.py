"""The trainer: finds datasets whose model is due, trains in a process of its own, and puts the model into use.

    due? ── somebody requested it; or the number of arrived sentences and the trainings so far
            (service/datasets/training_schedule.py)
    train ─ a process at low priority writes the model into the registry, and compares it with the one in use
    use ─── the dataset's settings name the new model; workers then judge what was stored while it had none

Of several trainers, the holder of the lease works. If two believe that they hold it, both writes are safe: the record
that begins a training, and the change of settings, succeed for one of them only.
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from service.contracts import Training
from service.datasets.changes import merge_settings
from service.datasets.training_schedule import is_due, wants_training
from service.datasets.trainings import build_training_message
from service.errors import ConflictError, InvalidInput, LabelwatchError, MissingModelError, StreamError
from service.inference.model.registry import choose_version_name
from service.inference.model.scratch_folder import remove_dead_scratch_folders
from service.log.protocol import VersionConflict
from service.runtime.datasets.sentences import select_outside_labels
from service.runtime.training.messages import FailedMessage, ProgressMessage, RefusedMessage, TrainedMessage
from service.runtime.training.model_change import write_model_change
from service.runtime.training.process import TrainingProcess, describe_timeout

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from service.contracts import DatasetSettings, ModelComparison
    from service.contracts.datasets.training import TrainingResult
    from service.datasets.training_view import TrainingView
    from service.inference.model.registry import ModelRegistry
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.runtime.lifecycle.lease import Lease
    from service.runtime.training.messages import OutcomeMessage
    from service.settings.groups import TrainerSettings
    from service.stream.state.view import StateView
    from service.telemetry import Telemetry

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 1.0
RETRY_INTERVAL_S: Final = 5.0
PROGRESS_INTERVAL_S: Final = 2.0
POLL_INTERVAL_S: Final = 0.5
MAX_SETTINGS_ATTEMPTS: Final = 5
VISIBLE_TIMEOUT_S: Final = 10.0
VISIBLE_POLL_INTERVAL_S: Final = 0.05
MAX_REASON_CHARS: Final = 2_000
MODEL_SCHEMES: Final = ("io", "iob2")  # of trained models
TRAINED_FIELDS: Final = (
    "fingerprint",
    "sentences",
    "words",
    "f1",
    "f1_by_fold",
    "types",
    "untrained_types",
    "comparison",
)


class DueTraining(NamedTuple):
    """A dataset whose model is due, and how many of its sentences have arrived and wait."""

    settings: DatasetSettings
    arrived: int
    waiting: int
    request: str | None = None


class StopRequested(Exception):  # noqa: N818 - not an error
    """The service stops, or another trainer holds the lease."""


class Trainer:
    """Trains one model at a time."""

    def __init__(
        self,
        settings: TrainerSettings,
        topics: Topics,
        *,
        log: Log,
        registry: ModelRegistry,
        state_view: StateView,
        training_view: TrainingView,
        lease: Lease,
        auto: bool,
        telemetry: Telemetry | None = None,
    ) -> None:
        """`auto`: whether datasets that don't say so themselves are trained if no model fits them."""
        self._settings = settings
        self._topics = topics
        self._log = log
        self._registry = registry
        self._state_view = state_view
        self._training_view = training_view
        self._lease = lease
        self._auto = auto
        self._telemetry = telemetry
        self._held = False
        self._ended: set[tuple[str, str]] = set()  # dataset and model of the trainings whose last record is written

    def run(self, stop: threading.Event) -> None:
        """Looks for due trainings until `stop` is set. A log that does not answer is asked again."""
        while not stop.wait(CHECK_INTERVAL_S):
            try:
                self.step(stop)
            except (LabelwatchError, OSError) as error:
                logger.warning("the trainer could not go on and tries again: %s", error)
                stop.wait(RETRY_INTERVAL_S)

    def step(self, stop: threading.Event) -> Training | None:
        """Trains the first dataset that is due. Returns what came of it; None if nothing is due, or another trainer works."""
        if not (self._state_view.caught_up and self._training_view.caught_up):
            return None
        held, self._held = self._held, self._lease.is_held
        if not self._held:
            return None
        if not held:
            self._remove_scratch_folders()
        self._end_abandoned_trainings()
        due = self.find_due(datetime.now(UTC))
        return None if due is None else self._train(due, stop)

    def _remove_scratch_folders(self) -> None:
        for folder in remove_dead_scratch_folders(self._registry.path):
            logger.info("removed %s, which a killed training left", folder)

    def _end_abandoned_trainings(self) -> None:
        """Ends the records of trainings whose trainer was killed, or could not write to the log."""
        for training in self._training_view.list_running():
            if (training.dataset, training.model) in self._ended:
                continue
            if self._state_view.get_settings_state(training.dataset).in_force.model == training.model:
                ended = _end(training, result="used", reason=None)  # it ended just after it had put it into use
            else:
                ended = _end(training, result="failed", reason="the trainer was ended before the training")
            self._write_end(ended)

    # -- what is due -----------------------------------------------------------------------------------------------

    def find_due(self, now: datetime) -> DueTraining | None:
        """The first dataset whose training is requested, else the first whose model is due."""
        snapshot = self._state_view.snapshot
        judged = snapshot.count_sentences_by_dataset()
        scheduled: DueTraining | None = None
        for name in self._state_view.list_names():
            trainings = self._training_view.list_trainings(name)
            arrived = judged[name] + snapshot.get_arrivals(name).total.waiting
            if trainings and trainings[0].result == "running":  # its end is written, and not read yet
                continue
            request = self._training_view.find_request(name)
            if request is not None:
                settings = self._state_view.get_settings_state(name).in_force
                return DueTraining(settings, arrived, self._count_unfit(settings), request.id)
            if scheduled is None and is_due(
                trainings, arrived=arrived, min_sentences=self._settings.min_sentences, now=now
            ):
                settings = self._state_view.get_settings_state(name).in_force
                waiting = self._count_unfit(settings)
                if wants_training(settings, trainings, waiting=waiting, default=self._auto):
                    scheduled = DueTraining(settings, arrived, waiting)
        return scheduled

    def _count_unfit(self, settings: DatasetSettings) -> int:
        """Sentences that wait because no model fits; those that are about to be judged don't count."""
        waiting = None if settings.model is not None else self._state_view.find_waiting(settings.name)
        return 0 if waiting is None or waiting.fits else waiting.sentences

    # -- one training ----------------------------------------------------------------------------------------------

    def _train(self, due: DueTraining, stop: threading.Event) -> Training | None:
        dataset = due.settings.name
        trainings = self._training_view.list_trainings(dataset)
        taken = {*self._registry.list_names(), *(training.model for training in trainings)}
        training = Training(
            dataset=dataset,
            model=choose_version_name(dataset, taken),
            result="running",
            started_at=datetime.now(UTC),
            arrived=due.arrived,
            request=due.request,
        )
        try:
            self._log.append_if_unchanged(build_training_message(self._topics.models, training), None)
        except VersionConflict:
            logger.info("another trainer has begun %s", training.model)
            self._wait_until_visible(training)
            return None
        logger.info("training %s from the %d sentences of dataset %s", training.model, due.arrived, dataset)
        started = time.monotonic()
        try:
            outcome = self._run_process(training, due, stop)
            ended = self._use(training, due.settings, outcome)
        except StopRequested:
            ended = _end(training, result="stopped", reason="the trainer was stopped")
        except (LabelwatchError, OSError) as error:
            ended = _end(training, result="failed", reason=str(error))
        finally:
            remove_dead_scratch_folders(self._registry.path)
        self._write_end(ended)
        logger.info("%s", describe_training(ended))
        if self._telemetry is not None:
            self._telemetry.observe_training(dataset, ended.result, time.monotonic() - started)
        return ended

    def _run_process(self, training: Training, due: DueTraining, stop: threading.Event) -> OutcomeMessage:
        in_use = self._find_model_in_use(due)
        with TrainingProcess(
            dataset=training.dataset, model=training.model, in_use=in_use, threads=self._settings.threads
        ) as process:
            written_at = started_at = time.monotonic()
            while True:
                message = process.poll(POLL_INTERVAL_S)
                if stop.is_set() or not self._lease.is_held:
                    raise StopRequested
                if time.monotonic() - started_at > self._settings.timeout_s:
                    return FailedMessage(reason=describe_timeout(self._settings.timeout_s))
                if isinstance(message, ProgressMessage):
                    if time.monotonic() - written_at >= PROGRESS_INTERVAL_S:
                        written_at = time.monotonic()
                        self._write_progress(training, message)
                elif message is not None:
                    return message

    def _write_progress(self, training: Training, message: ProgressMessage) -> None:
        """The training goes on without: the log may answer again before it ends."""
        try:
            self._write(training.model_copy(update={"progress": message.progress}))
        except StreamError as error:
            logger.warning("the progress of training %s can't be written: %s", training.model, error)

    def _find_model_in_use(self, due: DueTraining) -> Path | None:
        """The folder of the model to compare with; None if there is none that fits the dataset."""
        if due.waiting:
            return None
        try:
            folder = self._state_view.get_judge(due.settings.name).folder
        except MissingModelError:
            return None
        return None if folder is None else folder.path

    # -- what comes of it ------------------------------------------------------------------------------------------

    def _use(self, training: Training, before: DatasetSettings, outcome: OutcomeMessage) -> Training:
        """Puts a trained model into use, unless it is worse. `before`: the settings when the training began."""
        if isinstance(outcome, RefusedMessage):
            return _end(training, result="refused", reason=outcome.reason)
        if isinstance(outcome, FailedMessage):
            return _end(training, result="failed", reason=outcome.reason)
        trained = training.model_copy(update={name: getattr(outcome, name) for name in TRAINED_FIELDS})
        if outcome.is_worse and outcome.comparison is not None:
            return _end(trained, result="not_used", reason=explain_worse(outcome.comparison))
        self._write(trained)  # a trainer that ends now leaves the figures
        reason = self._change_model(before, training.model, outcome)
        return _end(trained, result="used" if reason is None else "not_used", reason=reason)

    def _change_model(self, before: DatasetSettings, model: str, outcome: TrainedMessage) -> str | None:
        """Makes the dataset use the model. Returns why it does not; None if it does."""
        problem = ""
        for attempt in range(MAX_SETTINGS_ATTEMPTS):
            if attempt:
                time.sleep(CHECK_INTERVAL_S)  # the other writer's record has to arrive
            state = self._state_view.get_settings_state(before.name)
            if state.in_force.model not in (before.model, model):
                return f"the dataset was given the model {state.in_force.model} during the training"
            if state.in_force.auto_train is False and before.auto_train is not False:
                return "auto_train was turned off during the training"
            try:
                change = merge_settings(
                    state, build_model_change(state.in_force, model, outcome), build_judge=self._state_view.build_judge
                )
                write_model_change(self._log, self._topics, change)
            except ConflictError as error:
                problem = str(error)
            except InvalidInput as error:
                return f"the settings of the dataset don't fit it: {error}"
            else:
                return None
        return problem

    def _write_end(self, training: Training) -> None:
        self._write(training)
        self._ended.add((training.dataset, training.model))
        self._wait_until_visible(training)

    def _write(self, training: Training) -> None:
        self._log.append([build_training_message(self._topics.models, training)])

    def _wait_until_visible(self, training: Training) -> None:
        """Waits until this process has read the record, so that the next step builds on it. Gives up on a slow log."""
        deadline = time.monotonic() + VISIBLE_TIMEOUT_S
        while time.monotonic() < deadline:
            visible = self._training_view.list_trainings(training.dataset)
            if any((each.model, each.result) == (training.model, training.result) for each in visible):
                return
            time.sleep(VISIBLE_POLL_INTERVAL_S)


def build_model_change(settings: DatasetSettings, model: str, outcome: TrainedMessage) -> dict[str, object]:
    """The changed settings with which a dataset uses a model that was trained on its own labels.

    The label map loses its entries, which name classes of the model before, except those that say how `O` is spelt. The
    scheme is written down if it is not the model's own.
    """
    change: dict[str, object] = {"model": model, "model_fingerprint": outcome.fingerprint}
    outside = select_outside_labels(settings)
    renamed = {label: None for label in settings.label_map if label not in outside}
    if renamed:
        change["label_map"] = renamed
    if settings.scheme is None and outcome.scheme not in MODEL_SCHEMES:
        change["scheme"] = outcome.scheme
    return change


def explain_worse(comparison: ModelComparison) -> str:
    return (
        f"its F1 is lower than that of {comparison.model} by {-comparison.difference:.3f}, on the same sentences: more than "
        f"twice the standard error of {comparison.standard_error:.3f}"
    )


def describe_training(training: Training) -> str:
    """What came of a training, for the log."""
    texts = {
        "used": f"dataset {training.dataset} uses {training.model} now",
        "not_used": f"dataset {training.dataset} does not use {training.model}",
        "refused": f"dataset {training.dataset} can't be trained on yet",
        "failed": f"training {training.model} failed",
        "stopped": f"training {training.model} was stopped",
    }
    f1 = "" if training.f1 is None else f" (F1 {training.f1:.2f}, {training.sentences:,} sentences)"
    reason = "" if training.reason is None else f": {training.reason}"
    return f"{texts[training.result]}{f1}{reason}"


def _end(training: Training, *, result: TrainingResult, reason: str | None) -> Training:
    reason = None if reason is None else reason[:MAX_REASON_CHARS]
    update = {"result": result, "reason": reason, "ended_at": datetime.now(UTC), "progress": None}
    return training.model_copy(update=update)
