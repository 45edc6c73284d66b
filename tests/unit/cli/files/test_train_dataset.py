"""`labelwatch train --dataset`: a model from what the service has stored, with reviewers' corrections."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.log.protocol import Output
from tests.support.review_queue import make_decision_output
from tests.support.training_data import make_training_text

if TYPE_CHECKING:
    from pathlib import Path

    from service.contracts import LabelledSentence
    from tests.support.command_harness import CommandHarness

DATASET = "med"


@pytest.fixture
def models(harness: CommandHarness) -> Path:
    path = harness.folder / "models"
    harness.variables["LABELWATCH_MODELS_PATH"] = str(path)
    return path


def store(harness: CommandHarness, sentences: list[LabelledSentence], **fields: object) -> None:
    harness.append(
        *(
            Output("labelwatch.sentences", None, each.model_copy(update=fields).model_dump_json().encode())
            for each in sentences
        )
    )


def train(harness: CommandHarness, *arguments: object) -> str:
    result = harness.run("train", "--dataset", DATASET, "--encoder", "none", *arguments)
    assert result.code == 0, result.err
    return result.out


def read_training(model: Path) -> dict[str, Any]:
    training: dict[str, Any] = json.loads((model / "model.json").read_text())["training"]
    return training


def test_versions_are_trained_from_what_is_stored(harness: CommandHarness, models: Path) -> None:
    text = make_training_text(240, seed=3, n_errors=6)
    store(harness, text.sentences, dataset=DATASET)
    store(harness, make_training_text(50, seed=4).sentences, dataset="other")
    out = train(harness)
    shown = {int(line.split()[2]) for line in out.splitlines() if line.strip()[:1].isdigit()}
    assert len(shown & text.wrong) >= 4
    train(harness)
    assert sorted(path.name for path in models.iterdir()) == ["med-v1", "med-v2"]
    assert read_training(models / "med-v2")["sentences"] == 240
    assert harness.run("datasets", "set", DATASET, "model=med-v2").code == 0
    [row] = [line for line in harness.run("datasets", "list").out.splitlines() if line.startswith(DATASET)]
    assert "med-v2  budget 0.05" in row, "the policy of a trained model"


def test_the_newest_revision_counts_and_deleted_sentences_are_left_out(harness: CommandHarness, models: Path) -> None:
    sentences = make_training_text(150, seed=3).sentences
    store(harness, sentences, dataset=DATASET)
    store(harness, sentences[:10], dataset=DATASET, revision=2, labels=("B-DRUG",), tokens=("Velorin",))
    store(harness, sentences[:10], dataset=DATASET, revision=1)
    store(harness, sentences[10:15], dataset=DATASET, revision=1, deleted=True)
    train(harness, "--name", "m")
    training = read_training(models / "m")
    assert training["sentences"] == 145
    expected = sum(len(each.tokens) for each in sentences[15:]) + 10
    assert training["words"] == expected


def test_corrections_are_trained_on(harness: CommandHarness, models: Path) -> None:
    text = make_training_text(150, seed=3, n_errors=10)
    right = make_training_text(150, seed=3).sentences
    store(harness, text.sentences, dataset=DATASET)
    harness.append(
        *(
            make_decision_output(str(number), "error", dataset=DATASET, labels=list(right[number].labels))
            for number in text.wrong
        )
    )
    train(harness, "--name", "corrected")
    store(harness, right, dataset="right")
    result = harness.run("train", "--dataset", "right", "--encoder", "none", "--name", "right")
    assert result.code == 0, result.err
    digests = {read_training(models / name)["sha256"] for name in ("corrected", "right")}
    assert len(digests) == 1


def test_an_explicit_label_set_leaves_other_sentences_out(harness: CommandHarness, models: Path) -> None:
    sentences = make_training_text(200, seed=3).sentences
    store(harness, sentences, dataset=DATASET)
    harness.append_settings(name=DATASET, version=1, scheme="iob2", label_set=["DRUG"])
    train(harness, "--name", "drugs")
    assert list(read_training(models / "drugs")["types"]) == ["DRUG"]


def test_a_spelling_of_outside_counts_as_outside(harness: CommandHarness, models: Path) -> None:
    sentences = [
        each.model_copy(update={"labels": tuple("_" if label == "O" else label for label in each.labels)})
        for each in make_training_text(150, seed=3).sentences
    ]
    store(harness, sentences, dataset=DATASET)
    refused = harness.run("train", "--dataset", DATASET, "--encoder", "none")
    assert refused.code == 1
    assert "'_' is not a label: outside is spelt 'O' and nothing else" in refused.err
    harness.append_settings(name=DATASET, version=1, label_map={"_": "O", "DRUG": "PER"})
    train(harness, "--name", "m")
    assert set(read_training(models / "m")["types"]) == {"DRUG", "DISEASE"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--encoder", "none"), "give files, or --dataset"),
        (("--dataset", "med", "--encoder", "none", __file__), "give files, or --dataset"),
        ((__file__, "--encoder", "none"), "name the model"),
    ],
)
def test_wrong_usage_is_refused(harness: CommandHarness, models: Path, arguments: tuple[str, ...], error: str) -> None:
    result = harness.run("train", *arguments)
    assert result.code == 2
    assert error in " ".join(result.err.split())
    assert not models.exists()


def test_a_dataset_that_is_not_stored_is_named(harness: CommandHarness, models: Path) -> None:
    store(harness, make_training_text(5, seed=3).sentences, dataset="medical")
    missing = harness.run("train", "--dataset", DATASET, "--encoder", "none")
    assert missing.code == 1
    assert "the dataset 'med' is not known: the datasets are medical" in missing.err
    few = harness.run("train", "--dataset", "medical", "--encoder", "none")
    assert few.code == 1
    assert "training needs at least 100 labelled sentences, there are 5" in few.err
    assert not models.exists()
