"""`labelwatch up` with labels that no model fits: the sentences wait, a model is trained, and their errors are in the queue."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.command_harness import CommandHarness
from tests.support.training_data import make_training_text
from tests.unit.cli.serve.test_up import list_modes, poll_until, running, stop_process, usual_umask

if TYPE_CHECKING:
    from pathlib import Path

    import httpx


@pytest.fixture
def harness(tmp_path: Path, tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> CommandHarness:
    variables = {
        "LABELWATCH_API_PORT": "0",
        "LABELWATCH_MODELS_PATH": str(tmp_path / "models"),
        "LABELWATCH_TRAINER_ENCODER": "none",
        "LABELWATCH_LOGS_LEVEL": "warning",  # a line per request would fill the pipe, which nobody reads until the end
        "LABELWATCH_TRAINER_MIN_SENTENCES": "200",
    }
    return CommandHarness(tmp_path, tiny_model, variables=variables, capfd=capfd)


def send(client: httpx.Client, n: int, *, seed: int, n_errors: int = 0) -> set[str]:
    """Returns the ids of the sentences with a planted error."""
    text = make_training_text(n, seed=seed, n_errors=n_errors)
    sentences = [
        {"id": f"{seed}-{number}", "dataset": "med", "tokens": each.tokens, "labels": each.labels}
        for number, each in enumerate(text.sentences)
    ]
    assert client.post("/v1/sentences", json={"sentences": sentences}).status_code == 202
    return {f"{seed}-{number}" for number in text.wrong}


def test_from_labels_that_nobody_knows_to_a_queue_of_their_errors(harness: CommandHarness, tmp_path: Path) -> None:
    with usual_umask(), running(harness, "up") as (process, client):
        send(client, 60, seed=1)
        models = poll_until(client, "/v1/datasets/med/models", lambda answer: answer.get("waiting") == 60)
        assert (models["model"], models["auto_train"], models["arrived"], models["due_at"]) == (None, True, 60, 200)
        assert client.get("/v1/review").json()["items"] == []

        wrong = send(client, 260, seed=2, n_errors=8)
        models = poll_until(client, "/v1/datasets/med/models", lambda answer: answer["used_since"])
        (training,) = models["trainings"]
        assert models["model"] == training["model"] == "med-v1"
        assert models["used_since"] == training["ended_at"]
        assert {each["name"] for each in training["types"]} == {"DRUG", "DISEASE"}
        # Everything that waited is judged now, and what was planted is in the queue.
        models = poll_until(
            client,
            "/v1/datasets/med/models",
            lambda answer: (answer["waiting"], answer["arrived"]) == (0, 320),
        )
        assert models["due_at"] >= 300
        queue = poll_until(
            client, "/v1/review", lambda answer: len({each["id"] for each in answer["items"]} & wrong) >= 4
        )
        assert {each["model"]["name"] for each in queue["items"]} == {"med-v1"}
        assert 'labelwatch_trainings_total{dataset="med",result="used"} 1.0' in client.get("/metrics").text

        send(client, 200, seed=3)
        models = poll_until(client, "/v1/datasets/med/models", lambda answer: len(answer["trainings"]) == 2)
        models = poll_until(
            client, "/v1/datasets/med/models", lambda answer: answer["trainings"][0]["result"] != "running"
        )
        assert models["trainings"][0]["comparison"]["model"] == "med-v1"
        assert models["trainings"][0]["result"] in ("used", "not_used")
        stop_process(process, signal.SIGTERM)
    modes = list_modes(tmp_path / "models")
    assert "med-v1/model.json" in modes
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o077} == {}


def test_a_dataset_may_refuse_the_trainer(harness: CommandHarness) -> None:
    with running(harness, "up", LABELWATCH_TRAINER_MIN_SENTENCES="50") as (_, client):
        assert client.patch("/v1/datasets/med", json={"auto_train": False}).status_code in (200, 201)
        send(client, 120, seed=1)
        models = poll_until(client, "/v1/datasets/med/models", lambda answer: answer["waiting"] == 120)
        assert models["auto_train"] is False
        client.patch("/v1/datasets/med", json={"auto_train": None})
        poll_until(client, "/v1/datasets/med/models", lambda answer: answer["model"] == "med-v1")
