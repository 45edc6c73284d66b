"""Trainings in a process of their own: progress, outcome, and what is left if one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.runtime.training.messages import FailedMessage, ProgressMessage, RefusedMessage, TrainedMessage
from service.runtime.training.process import TrainingProcess

if TYPE_CHECKING:
    from service.runtime.training.messages import OutcomeMessage
    from tests.unit.runtime.training.conftest import Installation

WAIT_TIMEOUT_S = 60
ROOT = Path(__file__).resolve().parents[4]


def start(model: str = "med-v1", in_use: Path | None = None) -> TrainingProcess:
    return TrainingProcess(dataset="med", model=model, in_use=in_use, threads=1)


def wait_for_outcome(process: TrainingProcess) -> tuple[list[str], OutcomeMessage]:
    """The steps, and the outcome."""
    steps: dict[str, None] = {}
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while time.monotonic() < deadline:
        message = process.poll(1.0)
        if isinstance(message, ProgressMessage):
            steps[message.progress.step] = None
        elif message is not None:
            return list(steps), message
    raise AssertionError("no outcome in time")


def test_a_training_reports_its_steps_and_its_figures(installation: Installation) -> None:
    installation.store(200)
    with start() as process:
        steps, outcome = wait_for_outcome(process)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    assert steps == ["read", "fit"]
    assert isinstance(outcome, TrainedMessage)
    assert (outcome.sentences, outcome.scheme, outcome.comparison) == (200, "iob2", None)
    assert {each.name for each in outcome.types} == {"DRUG", "DISEASE"}
    assert outcome.f1 > 0.9
    assert len(outcome.f1_by_fold) == 5
    assert [path.name for path in installation.models.iterdir()] == ["med-v1"]


def test_a_model_is_compared_with_the_one_in_use_on_the_same_sentences(
    installation: Installation, tiny_model: Path
) -> None:
    installation.store(150)
    with start() as process:
        wait_for_outcome(process)
    installation.store(150, seed=4)
    with start("med-v2", installation.models / "med-v1") as process:
        steps, outcome = wait_for_outcome(process)
    assert steps[-1] == "compare"
    assert isinstance(outcome, TrainedMessage)
    assert outcome.comparison is not None
    assert outcome.comparison.model == "med-v1"
    assert outcome.comparison.f1 > 0.9
    assert not outcome.is_worse
    with start("med-v3", tiny_model) as process:  # it knows none of the labels
        _, outcome = wait_for_outcome(process)
    assert isinstance(outcome, TrainedMessage)
    assert outcome.comparison is not None
    assert outcome.comparison.difference > 0.5


def test_data_that_can_not_be_trained_on_is_refused(installation: Installation) -> None:
    installation.store(20)
    with start() as process:
        _, outcome = wait_for_outcome(process)
    assert isinstance(outcome, RefusedMessage)
    assert "training needs at least 100 labelled sentences, there are 20" in outcome.reason
    assert not installation.models.exists()


def test_a_training_that_is_killed_fails_with_the_reason(installation: Installation) -> None:
    installation.store(400)
    with start() as process:
        assert process.poll(WAIT_TIMEOUT_S) is not None
        os.kill(process.pid, signal.SIGKILL)
        _, outcome = wait_for_outcome(process)
    assert outcome == FailedMessage(reason="the training process was ended by SIGKILL: there may not be enough memory")
    assert not installation.models.exists()


def test_an_encoder_that_is_not_there_fails_with_the_reason(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.store(150)
    monkeypatch.setenv("LABELWATCH_TRAINER_ENCODER", "missing")
    with start() as process:
        _, outcome = wait_for_outcome(process)
    assert isinstance(outcome, FailedMessage)
    assert "missing" in outcome.reason


def test_leaving_ends_the_training(installation: Installation) -> None:
    installation.store(400)
    with start() as process:
        assert process.poll(WAIT_TIMEOUT_S) is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert not installation.models.exists()


def test_a_training_ends_with_its_parent_however_that_ends(installation: Installation) -> None:
    installation.store(400)
    code = (
        "from service.runtime.training.process import TrainingProcess\n"
        "process = TrainingProcess(dataset='med', model='med-v1', in_use=None, threads=1)\n"
        "process.poll(60)\n"
        "print(process.pid, flush=True)\n"
        "import time\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + WAIT_TIMEOUT_S
    while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not installation.models.exists()
