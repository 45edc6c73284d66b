"""`labelwatch trainer` as a process: its health, and how it ends."""

from __future__ import annotations

import re
import signal
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.command_harness import CommandHarness
from tests.support.training_data import make_training_text

if TYPE_CHECKING:
    from pathlib import Path

WAIT_TIMEOUT_S = 60


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    variables = {
        "LABELWATCH_MODELS_PATH": str(tmp_path / "models"),
        "LABELWATCH_TRAINER_ENCODER": "none",
        "LABELWATCH_TRAINER_MIN_SENTENCES": "150",
        "LABELWATCH_TRAINER_METRICS_PORT": "0",
    }
    return CommandHarness(tmp_path, tiny_model, variables=variables, capfd=capfd)


def test_it_serves_its_health_trains_beside_a_worker_and_ends_on_sigterm(harness: CommandHarness) -> None:
    sentences = [
        {"id": each.id, "dataset": "med", "tokens": each.tokens, "labels": each.labels}
        for each in make_training_text(160, seed=1).sentences
    ]
    assert harness.run("send", harness.write_file(sentences)).code == 0
    assert harness.run("worker", "--once").code == 0
    trainer = harness.start("trainer")
    try:
        assert trainer.stderr is not None
        lines = iter(trainer.stderr.readline, "")
        address = next(match[1] for line in lines if (match := re.search(r"metrics on (http://\S+)/metrics", line)))
        deadline = time.monotonic() + WAIT_TIMEOUT_S
        while 'labelwatch_trainings_total{dataset="med",result="used"} 1.0' not in httpx.get(f"{address}/metrics").text:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        while httpx.get(f"{address}/readyz").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        trainer.send_signal(signal.SIGTERM)
        _, err = trainer.communicate(timeout=WAIT_TIMEOUT_S)
        assert trainer.returncode == 0, err
        assert "dataset med uses med-v1 now (F1 " in err
        assert "the trainer has stopped" in err
    finally:
        trainer.kill()
    # The workers judge with it.
    assert harness.run("worker", "--once").code == 0
    assert "med uses the model med-v1 since" in harness.run("datasets", "models", "med").out
