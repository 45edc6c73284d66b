"""The trainer: what it trains, when, and what it does with the result. Trainings are real, in processes of their own."""

from __future__ import annotations

import threading
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from service.access.audit_log import read_entries
from service.contracts import DatasetSettings, ModelComparison, TrainedType, Training
from service.datasets.changes import merge_settings, write_change
from service.datasets.training_view import TrainingView
from service.datasets.trainings import build_training_message, create_request, write_request
from service.errors import StreamError
from service.inference.model.registry import ModelRegistry
from service.log.sqlite.log import SqliteLog
from service.runtime.datasets.settings import build_datasets
from service.runtime.load_model import build_model_pool
from service.runtime.training.messages import FailedMessage, TrainedMessage
from service.runtime.training.trainer import Trainer, build_model_change
from service.runtime.worker import run_worker
from service.stream.state.view import StateView
from service.telemetry import Telemetry
from tests.support.api_harness import wait_for
from tests.unit.runtime.training.conftest import TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from service.log.protocol import Output
    from service.runtime.training.messages import OutcomeMessage
    from service.runtime.training.trainer import DueTraining
    from service.settings import Settings
    from tests.unit.runtime.training.conftest import Installation

NEVER = threading.Event()
MAPPED = {"auto_train": True, "label_map": {"DRUG": "PER", "DISEASE": "LOC"}}


class HeldLease:
    """The lease of an installation with one trainer."""

    is_held = True

    def close(self) -> None: ...


@dataclass
class TrainerHarness:
    settings: Settings
    log: SqliteLog
    state_view: StateView
    training_view: TrainingView
    telemetry: Telemetry

    def build_trainer(self, trainer_class: type[Trainer] = Trainer, **options: Any) -> Trainer:
        fields = {
            "log": self.log,
            "registry": ModelRegistry(self.settings.models.path),
            "state_view": self.state_view,
            "training_view": self.training_view,
            "lease": HeldLease(),
            "auto": True,
            "telemetry": self.telemetry,
        }
        return trainer_class(self.settings.trainer, TOPICS, **{**fields, **options})

    def change_settings(self, **fields: Any) -> None:
        state = self.state_view.get_settings_state("med")
        change = merge_settings(state, fields, build_judge=self.state_view.build_judge)
        write_change(self.log, TOPICS.datasets, change)
        wait_for(lambda: self.get_settings().version == change.settings.version)

    def get_settings(self) -> DatasetSettings:
        return self.state_view.get_settings_state("med").in_force

    def judge_sentences(self, total: int) -> None:
        """Runs a worker over what has arrived."""
        run_worker(self.settings, once=True)
        wait_for(lambda: self.state_view.snapshot.count_sentences_by_dataset()["med"] == total)

    def list_trainings(self) -> tuple[Training, ...]:
        return self.training_view.list_trainings("med")


@contextmanager
def run_in_thread(run: Callable[[threading.Event], None]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def harness(installation: Installation) -> Iterator[TrainerHarness]:
    trainer = installation.settings.trainer.model_copy(update={"min_sentences": 150})
    settings = installation.settings.model_copy(update={"trainer": trainer})
    with ExitStack() as stack:
        log, state_log, training_log = (
            stack.enter_context(closing(SqliteLog(settings.log.path, TOPICS))) for _ in range(3)
        )
        state_view = StateView(state_log, TOPICS, build_datasets(settings, build_model_pool(settings)))
        training_view = TrainingView(training_log, TOPICS.models)
        stack.enter_context(run_in_thread(state_view.run))
        stack.enter_context(run_in_thread(training_view.run))
        wait_for(lambda: state_view.caught_up and training_view.caught_up)
        yield TrainerHarness(settings, log, state_view, training_view, Telemetry())


def make_trained(**fields: Any) -> TrainedMessage:
    return TrainedMessage.model_validate(
        {
            "fingerprint": "0" * 64,
            "scheme": "iob2",
            "sentences": 150,
            "words": 1500,
            "f1": 0.7,
            "f1_by_fold": (0.7,) * 5,
            "types": (TrainedType(name="DRUG", examples=100, precision=0.7, recall=0.7, f1=0.7),),
            "untrained_types": (),
            **fields,
        }
    )


def build_trainer_with_outcome(
    harness: TrainerHarness, outcome: OutcomeMessage, before: Callable[[], None] = lambda: None
) -> Trainer:
    """A trainer whose trainings end at once with this outcome; `before` happens meanwhile."""

    class InstantTrainer(Trainer):
        def _run_process(self, training: Training, due: DueTraining, stop: threading.Event) -> OutcomeMessage:
            before()
            return outcome

    return harness.build_trainer(InstantTrainer)


def test_a_dataset_is_trained_when_enough_has_arrived_and_again_when_it_has_grown_by_half(
    installation: Installation, harness: TrainerHarness
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(149)
    harness.judge_sentences(149)
    trainer = harness.build_trainer()
    assert trainer.step(NEVER) is None
    installation.store(1, seed=4, id="one-more")
    harness.judge_sentences(150)

    first = trainer.step(NEVER)
    assert first is not None
    assert (first.model, first.result, first.arrived, first.sentences) == ("med-v1", "used", 150, 150)
    assert {each.name for each in first.types} == {"DRUG", "DISEASE"}
    assert first.comparison is not None  # with the default model, which judged by the label map
    assert first.comparison.difference > 0.3
    wait_for(lambda: harness.get_settings().model == "med-v1")
    assert harness.get_settings().model_fingerprint == first.fingerprint
    assert harness.get_settings().label_map == {}  # the trained model has the dataset's own names
    assert harness.list_trainings() == (first,)
    assert trainer.step(NEVER) is None

    installation.store(74, seed=5)
    harness.judge_sentences(224)
    assert trainer.step(NEVER) is None
    installation.store(1, seed=6, id="the-last")
    harness.judge_sentences(225)
    second = trainer.step(NEVER)
    assert second is not None
    assert (second.model, second.result) == ("med-v2", "used")
    assert second.comparison is not None
    assert second.comparison.model == "med-v1"
    exposition = harness.telemetry.render_exposition()[0].decode()
    assert 'labelwatch_trainings_total{dataset="med",result="used"} 2.0' in exposition
    assert "labelwatch_training_seconds_count 2.0" in exposition


def test_a_requested_training_starts_whatever_the_schedule_says_and_only_once(
    installation: Installation, harness: TrainerHarness
) -> None:
    harness.change_settings(**{**MAPPED, "auto_train": False})
    installation.store(30)
    harness.judge_sentences(30)
    trainer = build_trainer_with_outcome(harness, make_trained(is_worse=True))
    assert trainer.step(NEVER) is None
    request = create_request("med")
    write_request(harness.log, TOPICS.models, request, harness.training_view.get_request_state("med"))
    wait_for(lambda: harness.training_view.find_request("med") == request)
    training = trainer.step(NEVER)
    assert training is not None
    assert (training.request, training.arrived) == (request.id, 30)
    assert trainer.step(NEVER) is None


def test_a_refused_training_is_tried_again_only_after_growth(
    installation: Installation, harness: TrainerHarness
) -> None:
    harness.settings = harness.settings.model_copy(
        update={"trainer": harness.settings.trainer.model_copy(update={"min_sentences": 20})}
    )
    harness.change_settings(**MAPPED)
    installation.store(30)
    harness.judge_sentences(30)
    trainer = harness.build_trainer()
    refused = trainer.step(NEVER)
    assert refused is not None
    assert refused.result == "refused"
    assert "training needs at least 100 labelled sentences" in (refused.reason or "")
    assert harness.get_settings().model is None
    assert trainer.step(NEVER) is None
    installation.store(15, seed=4)
    harness.judge_sentences(45)
    assert trainer.find_due(datetime.now(UTC)) is not None


def test_a_worse_model_is_not_used_and_the_reason_is_recorded(
    installation: Installation, harness: TrainerHarness
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    comparison = ModelComparison(model="med-v0", f1=0.75, difference=-0.05, standard_error=0.01)
    outcome = make_trained(comparison=comparison, is_worse=True)
    ended = build_trainer_with_outcome(harness, outcome).step(NEVER)
    assert ended is not None
    assert ended.result == "not_used"
    assert ended.reason == (
        "its F1 is lower than that of med-v0 by 0.050, on the same sentences: more than twice the standard error of 0.010"
    )
    assert (ended.f1, ended.types[0].name) == (0.7, "DRUG")
    assert harness.get_settings().model is None


def test_a_model_that_was_chosen_meanwhile_stays(installation: Installation, harness: TrainerHarness) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    first = harness.build_trainer().step(NEVER)
    assert first is not None
    wait_for(lambda: harness.get_settings().model == "med-v1")
    ModelRegistry(harness.settings.models.path).add(harness.settings.models.path / "med-v1", "mine")
    installation.store(75, seed=4)
    harness.judge_sentences(225)
    trainer = build_trainer_with_outcome(
        harness, make_trained(), lambda: harness.change_settings(model="mine", model_fingerprint=None)
    )
    ended = trainer.step(NEVER)
    assert ended is not None
    assert ended.result == "not_used"
    assert ended.reason == "the dataset was given the model mine during the training"
    assert harness.get_settings().model == "mine"


def test_a_failed_training_is_not_repeated_at_once(installation: Installation, harness: TrainerHarness) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    trainer = build_trainer_with_outcome(harness, FailedMessage(reason="no space left on device"))
    failed = trainer.step(NEVER)
    assert failed is not None
    assert (failed.result, failed.reason) == ("failed", "no space left on device")
    assert trainer.step(NEVER) is None


def test_a_training_that_takes_too_long_is_ended(
    installation: Installation, harness: TrainerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    monkeypatch.setattr("service.runtime.training.process.CHILD_MODULE", "http.server")  # it would run for ever
    limited = harness.settings.trainer.model_copy(update={"timeout_s": 0.01})
    monkeypatch.setattr(harness, "settings", harness.settings.model_copy(update={"trainer": limited}))
    failed = harness.build_trainer().step(NEVER)
    assert failed is not None
    assert (failed.result, failed.reason) == (
        "failed",
        "it took longer than 0.01 s (the limit is LABELWATCH_TRAINER_TIMEOUT_S)",
    )


def test_an_error_of_the_trainer_itself_fails_the_training_too(
    installation: Installation, harness: TrainerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    trainer = harness.build_trainer()
    failed = trainer.step(NEVER)
    assert failed is not None
    assert failed.result == "failed"
    assert "/nowhere/python" in (failed.reason or "")
    assert trainer.step(NEVER) is None


class LogWithoutProgress(SqliteLog):
    """Does not answer while a training runs."""

    refused = 0

    def append(self, outputs: Sequence[Output], *, timeout: float = 30.0) -> None:
        if any(b'"progress"' in (output.value or b"") for output in outputs):
            self.refused += 1
            raise StreamError("the broker does not answer")
        super().append(outputs, timeout=timeout)


def test_a_log_that_does_not_take_the_progress_does_not_fail_the_training(
    installation: Installation, harness: TrainerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    monkeypatch.setattr("service.runtime.training.trainer.PROGRESS_INTERVAL_S", 0.0)
    with closing(LogWithoutProgress(harness.settings.log.path, TOPICS)) as log:
        ended = harness.build_trainer(log=log).step(NEVER)
    assert ended is not None
    assert (ended.result, ended.reason) == ("used", None)
    assert log.refused
    (entry,) = read_entries(harness.log.read(TOPICS.audit, 0, 10))
    assert (entry.record.actor, entry.record.action, entry.record.dataset) == ("trainer", "settings", "med")
    assert entry.record.details["model"] == "med-v1"


def test_a_stopped_service_ends_the_training_and_leaves_nothing(
    installation: Installation, harness: TrainerHarness
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    stop = threading.Event()
    stop.set()
    stopped = harness.build_trainer().step(stop)
    assert stopped is not None
    assert stopped.result == "stopped"
    assert not list(installation.models.glob("*"))
    assert harness.build_trainer().find_due(datetime.now(UTC)) is not None  # at the next start, without a pause


def test_a_killed_trainer_leaves_a_training_that_its_successor_ends(
    installation: Installation, harness: TrainerHarness
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    abandoned = Training(dataset="med", model="med-v1", result="running", started_at=datetime.now(UTC), arrived=150)
    harness.log.append([build_training_message(TOPICS.models, abandoned)])
    wait_for(lambda: bool(harness.list_trainings()))
    assert harness.build_trainer().step(NEVER) is None
    wait_for(lambda: harness.list_trainings()[0].result == "failed")
    assert harness.list_trainings()[0].reason == "the trainer was ended before the training"


def test_a_trainer_that_was_killed_after_the_change_of_settings_has_done_its_work(
    installation: Installation, harness: TrainerHarness
) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    assert harness.build_trainer().step(NEVER) is not None
    (training,) = harness.list_trainings()
    unfinished = training.model_copy(update={"result": "running", "ended_at": None})
    harness.log.append([build_training_message(TOPICS.models, unfinished)])
    wait_for(lambda: harness.list_trainings()[0].result == "running")
    assert harness.build_trainer().step(NEVER) is None
    (recovered,) = harness.list_trainings()
    assert (recovered.result, recovered.f1) == ("used", training.f1)


def test_of_two_trainers_that_hold_the_lease_one_trains(installation: Installation, harness: TrainerHarness) -> None:
    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    barrier = threading.Barrier(2)
    results: list[Training | None] = []

    def train() -> None:
        trainer = harness.build_trainer()
        barrier.wait()
        results.append(trainer.step(NEVER))

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(result is not None for result in results) == 1
    assert [path.name for path in installation.models.iterdir()] == ["med-v1"]


def test_without_the_lease_nothing_is_trained(installation: Installation, harness: TrainerHarness) -> None:
    class FreeLease(HeldLease):
        is_held = False

    harness.change_settings(**MAPPED)
    installation.store(150)
    harness.judge_sentences(150)
    assert harness.build_trainer(lease=FreeLease()).step(NEVER) is None
    assert harness.list_trainings() == ()


def test_sentences_that_wait_only_until_they_are_judged_need_no_training(
    installation: Installation, harness: TrainerHarness
) -> None:
    installation.store(150)
    run_worker(harness.settings, once=True)
    wait_for(lambda: harness.state_view.snapshot.get_arrivals("med").total.waiting == 150)
    trainer = harness.build_trainer()
    due = trainer.find_due(datetime.now(UTC))
    assert due is not None
    assert (due.arrived, due.waiting) == (150, 150)
    assert harness.build_trainer(auto=False).find_due(datetime.now(UTC)) is None
    harness.change_settings(label_map=MAPPED["label_map"])  # the default model fits now, and the worker is behind
    assert trainer.find_due(datetime.now(UTC)) is None


def test_a_dataset_that_its_model_fits_is_left_alone(installation: Installation, harness: TrainerHarness) -> None:
    harness.change_settings(label_map=MAPPED["label_map"])
    installation.store(150)
    harness.judge_sentences(150)
    assert harness.build_trainer().find_due(datetime.now(UTC)) is None


@pytest.mark.parametrize(
    ("settings", "scheme", "change"),
    [
        ({}, "iob2", {}),
        ({}, "biluo", {"scheme": "biluo"}),
        ({"scheme": "biluo"}, "biluo", {}),
        ({"label_map": {"_": "O", "DRUG": "PER"}}, "io", {"label_map": {"DRUG": None}}),
        ({"label_map": {"_": "O"}}, "io", {}),
    ],
)
def test_settings_for_a_model_with_the_names_of_the_dataset(
    settings: dict[str, Any], scheme: str, change: dict[str, Any]
) -> None:
    outcome = make_trained(scheme=scheme)
    chosen = {"model": "med-v1", "model_fingerprint": outcome.fingerprint}
    assert build_model_change(DatasetSettings(**settings), "med-v1", outcome) == {**chosen, **change}
