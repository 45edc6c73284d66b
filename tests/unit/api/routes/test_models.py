"""The models of a dataset over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.datasets.trainings import build_training_message
from tests.support.api_harness import TOPICS
from tests.unit.datasets.test_trainings import make_training

if TYPE_CHECKING:
    from tests.support.api_harness import ApiHarness


def test_trainings_are_listed_with_the_way_to_the_next(harness: ApiHarness) -> None:
    harness.client.put("/v1/datasets/med", json={"auto_train": True})
    assert harness.client.get("/v1/datasets/med/models").json() == {
        "dataset": "med",
        "model": None,
        "used_since": None,
        "auto_train": True,
        "waiting": 0,
        "arrived": 0,
        "due_at": 300,
        "trainings": [],
    }
    trainings = [
        make_training("med-v1", result="refused", reason="no entity type has 10 examples"),
        make_training(
            "med-v2", minute=9, result="running", arrived=460, progress={"step": "fit", "done": 1, "total": 5}
        ),
    ]
    harness.log.append([build_training_message(TOPICS.models, training) for training in trainings])
    harness.backend.training_view.step()
    models = harness.client.get("/v1/datasets/med/models").json()
    assert models["due_at"] == 450
    assert [(each["model"], each["result"], each["reason"]) for each in models["trainings"]] == [
        ("med-v2", "running", None),
        ("med-v1", "refused", "no entity type has 10 examples"),
    ]
    assert models["trainings"][0]["progress"] == {"step": "fit", "done": 1, "total": 5}


def test_an_unknown_dataset_is_not_found(harness: ApiHarness) -> None:
    answer = harness.client.get("/v1/datasets/nothing/models")
    assert answer.status_code == 404
    assert "the dataset 'nothing' is not known" in answer.json()["detail"]
