"""`labelwatch score --dataset`: files are judged with the settings that the service has for a dataset."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.inference.model.folder import ModelFolder
from tests.support.command_harness import make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_harness import CommandHarness

MED_LABELS = ("O", "B-DRUG", "I-DRUG", "B-DOSE", "I-DOSE")
GIVEN_LABELS = ("O", "B-MEDICINE", "I-MEDICINE", "B-DOSE", "I-DOSE")


@pytest.fixture
def folder(harness: CommandHarness) -> ModelFolder:
    models = harness.folder / "models"
    harness.variables = {"LABELWATCH_MODELS_PATH": str(models)}
    return ModelFolder.load(make_model(models / "med-v1", "wordpiece", seed=1, labels=MED_LABELS))


@pytest.fixture
def file(harness: CommandHarness) -> Path:
    return harness.write_file(make_sentences(30, labels=GIVEN_LABELS))


def score(harness: CommandHarness, *arguments: object) -> tuple[list[dict[str, Any]], str]:
    ran = harness.run("score", *arguments, "--output", "-")
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()], ran.err


def test_model_label_map_and_scores_come_from_the_settings_of_the_dataset(
    harness: CommandHarness, folder: ModelFolder, file: Path
) -> None:
    harness.append_settings(name="med", version=3, model="med-v1", label_map={"MEDICINE": "DRUG"}, method="product")
    found, err = score(harness, file, "--dataset", "med")
    assert f"judged by med-v1 ({folder.fingerprint[:12]}) with the settings of med, version 3" in err
    expected, _ = score(
        harness, file, "--model", "med-v1", "--map", "MEDICINE=DRUG", "--method", "product", "--scheme", "iob2"
    )
    assert [(each["id"], each["priority"], each["score"]) for each in found] == [
        (each["id"], each["priority"], each["score"]) for each in expected
    ]
    assert {each["method"] for each in found} == {"product"}


def test_options_override_the_settings(harness: CommandHarness, folder: ModelFolder, file: Path) -> None:
    harness.append_settings(name="med", version=1, model="med-v1", label_map={"MEDICINE": "DOSE"}, method="product")
    found, _ = score(harness, file, "--dataset", "med", "--method", "worst-token", "--map", "MEDICINE=DRUG")
    expected, _ = score(harness, file, "--model", "med-v1", "--map", "MEDICINE=DRUG", "--scheme", "iob2")
    assert [(each["id"], each["score"]) for each in found] == [(each["id"], each["score"]) for each in expected]


def test_a_dataset_without_a_model_is_judged_by_the_default_model_of_the_service(harness: CommandHarness) -> None:
    harness.append_settings(name="news", version=1, control_share=0.5)
    _, err = score(harness, harness.write_file(make_sentences(10)), "--dataset", "news")
    assert f"judged by model ({ModelFolder.load(harness.model).fingerprint[:12]})" in err


def test_an_unknown_dataset_a_missing_model_and_no_log_are_named(
    harness: CommandHarness, folder: ModelFolder, file: Path
) -> None:
    refused = harness.run("score", file, "--dataset", "med")
    assert refused.code == 1
    assert "there is no log at" in refused.err
    harness.append_settings(name="med", version=1, model="med-v1", model_fingerprint="0" * 64)
    refused = harness.run("score", file, "--dataset", "mad")
    assert refused.code == 1
    assert "the dataset 'mad' is not known: the datasets are med" in refused.err
    refused = harness.run("score", file, "--dataset", "med")
    assert refused.code == 1
    assert "expected is 000000000000" in refused.err
