"""Commands on datasets that have a model of their own, there or missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from service.cli.datasets.models import describe_model, describe_next_training
from service.contracts import DatasetModels
from service.inference.model.folder import ModelFolder
from tests.support.command_harness import CommandHarness, make_sentences
from tests.support.tiny_models import make_model
from tests.support.waiting_datasets import make_drug_sentences
from tests.unit.datasets.test_trainings import make_training

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def models(harness: CommandHarness) -> Path:
    return harness.folder / "models"


def test_a_dataset_gets_a_model_and_is_judged_by_it(harness: CommandHarness, models: Path) -> None:
    folder = ModelFolder.load(make_model(models / "med-v1", "wordpiece", seed=1))
    variables = {"LABELWATCH_MODELS_PATH": str(models)}
    chosen = harness.run("datasets", "set", "med", "model=med-v1", **variables)
    assert chosen.code == 0, chosen.err
    shown = json.loads(harness.run("datasets", "show", "med", **variables).out)
    assert (shown["model"], shown["model_fingerprint"]) == ("med-v1", folder.fingerprint)
    sentences = [*make_sentences(5, dataset="med"), *make_sentences(5, seed=1, dataset="news")]
    assert harness.run("send", harness.write_file(sentences), **variables).code == 0
    judged = harness.run("worker", "--once", LABELWATCH_WORKER_PUBLISH_SCORES="true", **variables)
    assert judged.code == 0, judged.err
    thresholds = harness.run("thresholds", "show", "med", **variables)
    assert "med: 5 sentences learned from" in thresholds.out
    assert "med-v1" in harness.run("datasets", "list", **variables).out
    assert "1 set up; judged by a model of their own: med by med-v1" in harness.run("check", **variables).out


def test_a_missing_model_is_named_and_other_datasets_go_on(harness: CommandHarness, models: Path) -> None:
    harness.append_settings(name="med", version=1, model="med-v1")
    variables = {"LABELWATCH_MODELS_PATH": str(models)}
    needs = "the dataset 'med' needs the model 'med-v1': "
    harness.run("send", harness.write_file([*make_sentences(3), *make_sentences(2, dataset="med")]), **variables)
    ended = harness.run("worker", "--once", **variables)
    assert ended.code == 1
    assert f"partition 0 waits at offset 3: {needs}{models} has no model 'med-v1'" in ended.err
    assert needs in harness.run("datasets", "list", **variables).out
    (listed,) = [
        entry
        for entry in json.loads(harness.run("datasets", "list", "--json", **variables).out)["datasets"]
        if entry["name"] == "med"
    ]
    assert needs in listed["problem"]
    checked = harness.run("check", **variables)
    assert checked.code == 1
    assert needs in checked.out + checked.err
    all_thresholds = harness.run("thresholds", "show", **variables)
    assert all_thresholds.code == 0
    assert "default: 3 sentences learned from" in all_thresholds.out
    assert needs in all_thresholds.err
    assert needs in harness.run("thresholds", "show", "med", **variables).err
    refused = harness.run("datasets", "set", "med", "model=med-v2", **variables)
    assert refused.code == 1
    assert "`model`: the dataset 'med' needs the model 'med-v2'" in refused.err
    assert harness.run("datasets", "set", "med", "model=null", **variables).code == 0
    assert harness.run("worker", "--once", **variables).code == 0


def test_a_model_without_classes_for_the_labels_of_the_dataset_is_refused(
    harness: CommandHarness, models: Path
) -> None:
    make_model(models / "news-v1", "wordpiece", seed=1)
    make_model(models / "med-v1", "wordpiece", labels=("O", "B-DRUG", "I-DRUG", "B-DOSE", "I-DOSE"))
    variables = {"LABELWATCH_MODELS_PATH": str(models)}
    harness.run("send", harness.write_file(make_drug_sentences(20)), **variables)
    harness.run("worker", "--once", **variables)
    refused = harness.run("datasets", "set", "med", "model=news-v1", **variables)
    assert refused.code == 1
    assert "'news-v1' has no class for most labels of med" in refused.err
    for label in ("'B-DRUG' (", "'I-DRUG' (", "'B-DOSE' ("):
        assert label in refused.err
    misspelt = harness.run("datasets", "set", "med", "model=medv1", **variables)
    assert misspelt.code == 1
    assert "did you mean 'med-v1'?" in misspelt.err
    mapped = harness.run(
        "datasets", "set", "med", "model=news-v1", "label_map.DRUG=MISC", "label_map.DOSE=ORG", **variables
    )
    assert mapped.code == 0, mapped.err
    chosen = harness.run("datasets", "set", "med", "model=med-v1", "label_map.DRUG=", "label_map.DOSE=", **variables)
    assert chosen.code == 0, chosen.err
    assert "the worker judges the 19 stored sentences of med now" in chosen.out
    assert "med is judged by med-v1" in chosen.out


def test_a_dataset_leaves_a_model_that_is_gone(harness: CommandHarness, models: Path) -> None:
    harness.append_settings(name="med", version=1, model="gone")
    changed = harness.run("datasets", "set", "med", "model=null", LABELWATCH_MODELS_PATH=str(models))
    assert changed.code == 0, changed.err
    assert "med is judged by the default model" in changed.out


def test_an_unknown_model_is_answered_with_the_way_back_to_the_default_one(
    harness: CommandHarness, models: Path
) -> None:
    make_model(models / "med-v1", "wordpiece", seed=1)
    refused = harness.run("datasets", "set", "med", "model=default", LABELWATCH_MODELS_PATH=str(models))
    assert refused.code == 1
    assert (
        "it has med-v1; add it (`labelwatch model add`), or set another `model` (null: the default model)"
        in refused.err
    )


def test_one_sentence_waits_and_only_a_dataset_without_a_trained_model_gets_its_first() -> None:
    models = DatasetModels(dataset="med", model=None, auto_train=True, waiting=1, arrived=341, due_at=510, trainings=())
    assert describe_model(models).endswith(", and 1 sentence waits for one that fits")
    assert describe_next_training(models) == "341 of 510 sentences until the first model"
    trained = models.model_copy(update={"trainings": (make_training("med-v1", result="used"),)})
    assert describe_next_training(trained) == "341 of 510 sentences until the next training"
