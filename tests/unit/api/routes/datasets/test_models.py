"""The models of a dataset over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.datasets.trainings import build_training_message
from service.inference.model.folder import ModelFolder
from tests.support.api_harness import TOPICS, wait_for
from tests.support.tiny_models import make_model
from tests.support.waiting_datasets import make_drug_sentences
from tests.unit.datasets.test_trainings import make_training

if TYPE_CHECKING:
    from pathlib import Path

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
        "requested_at": None,
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


def test_a_dataset_changes_its_model_and_goes_back(harness: ApiHarness, tmp_path: Path) -> None:
    folders = {
        name: ModelFolder.load(make_model(tmp_path / "models" / name, "wordpiece", seed=seed))
        for seed, name in enumerate(("one", "two"), 1)
    }
    for name in ("one", "two", "one"):
        changed = harness.client.patch("/v1/datasets/med", json={"model": name}).json()
        assert (changed["model"], changed["model_fingerprint"]) == (name, folders[name].fingerprint)
        described = harness.client.get("/v1/model", params={"dataset": "med"}).json()
        assert described["fingerprint"] == folders[name].fingerprint
        assert harness.client.get("/v1/datasets/med/thresholds").json()["model"]["name"] == folders[name].name
    changed = harness.client.patch("/v1/datasets/med", json={"model": None}).json()
    assert (changed["model"], changed["model_fingerprint"]) == (None, None)
    default = harness.client.get("/v1/model").json()
    assert harness.client.get("/v1/model", params={"dataset": "med"}).json() == default
    assert harness.client.get("/v1/model", params={"dataset": "nothing"}).status_code == 404


def test_all_models_that_a_dataset_can_use_are_listed(harness: ApiHarness, tmp_path: Path) -> None:
    make_model(tmp_path / "models" / "news-v1", "wordpiece", seed=1)
    assert harness.client.put("/v1/datasets/quick", json={"model": "light"}).status_code == 201
    wait_for(lambda: "quick" in harness.backend.state_view.list_names())
    models = {each["name"]: each for each in harness.client.get("/v1/models").json()["models"]}
    assert list(models) == [None, "light", "news-v1"]
    assert (models["light"]["title"], models["light"]["datasets"]) == ("labelwatch-light-en", ["quick"])
    assert models["light"]["problem"] is None


def test_a_model_that_does_not_fit_the_labels_is_refused(harness: ApiHarness, tmp_path: Path) -> None:
    make_model(tmp_path / "models" / "news-v1", "wordpiece", seed=1)
    harness.send(*make_drug_sentences(20))
    wait_for(lambda: bool(harness.backend.state_view.list_waiting()))
    answer = harness.client.patch("/v1/datasets/med", json={"model": "news-v1"})
    assert answer.status_code == 422
    assert "'news-v1' has no class for most labels of med" in answer.text
    answer = harness.client.patch("/v1/datasets/med", json={"model": "newsv1"})
    assert answer.status_code == 422
    assert "did you mean 'news-v1'?" in answer.text
    mapped = {"model": "news-v1", "label_map": {"DRUG": "MISC", "DOSE": "ORG"}}
    assert harness.client.patch("/v1/datasets/med", json=mapped).status_code == 200


def test_a_training_is_requested_once(harness: ApiHarness) -> None:
    path, view = "/v1/datasets/med/trainings", harness.backend.training_view
    assert harness.client.post(path, json={}).status_code == 404
    harness.client.put("/v1/datasets/med", json={})
    first = harness.client.post(path, json={})
    assert (first.status_code, first.json()["state"]) == (202, "requested")
    assert harness.client.post(path, json={}).status_code == 202  # the first is not read yet: the log refuses another
    view.step()
    again = harness.client.post(path, json={}).json()
    assert again["requested_at"] == first.json()["requested_at"]
    (message,) = harness.read_messages(TOPICS.models)
    assert harness.client.get("/v1/datasets/med/models").json()["requested_at"] == first.json()["requested_at"]
    training = make_training("med-v1", result="running", request=message["id"])
    harness.log.append([build_training_message(TOPICS.models, training)])
    view.step()
    assert harness.client.post(path, json={}).json()["state"] == "running"
    assert harness.client.get("/v1/datasets/med/models").json()["requested_at"] is None
    assert len(harness.read_messages(TOPICS.models)) == 2
    harness.log.append([build_training_message(TOPICS.models, training.model_copy(update={"result": "used"}))])
    view.step()
    assert harness.client.post(path, json={}).json()["state"] == "requested"
    requests = [each for each in harness.read_messages(TOPICS.models) if "requested_at" in each]
    assert [each["id"] != message["id"] for each in requests] == [True]
