"""`labelwatch datasets models`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from service.datasets.trainings import build_training_message
from tests.support.command_harness import make_sentences
from tests.unit.datasets.test_trainings import START, make_training

if TYPE_CHECKING:
    from tests.support.command_harness import CommandHarness


def show(harness: CommandHarness, *arguments: str) -> str:
    result = harness.run("datasets", "models", "med", *arguments)
    assert result.code == 0, result.err
    return result.out


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        (
            {},
            [
                "med uses the default model of the service",
                "the trainer leaves it alone; `labelwatch datasets set med auto_train=true` changes that",
            ],
        ),
        (
            {"auto_train": True},
            ["med uses the default model of the service", "7 of 300 sentences until the first model"],
        ),
    ],
)
def test_the_way_to_the_first_model(harness: CommandHarness, settings: dict[str, object], lines: list[str]) -> None:
    harness.append_settings(name="med", version=1, **settings)
    harness.run("send", harness.write_file(make_sentences(7, dataset="med")))
    harness.run("worker", "--once")
    assert show(harness).splitlines() == lines


def test_trainings_with_figures_and_reasons(harness: CommandHarness) -> None:
    harness.append_settings(name="med", version=1, model="med-v1")
    figures: dict[str, Any] = {"f1": 0.71, "sentences": 298}
    types = [{"name": "DRUG", "examples": 90, "precision": 0.8, "recall": 0.7, "f1": 0.75}]
    trainings = [
        make_training("med-v1", ended_at=START, types=types, **figures),
        make_training("med-v2", minute=8, result="not_used", reason="it is worse", arrived=600, **figures),
    ]
    harness.append(*(build_training_message("labelwatch.models", training) for training in trainings))
    lines = show(harness).splitlines()
    assert lines[0] == "med uses the model med-v1 since 2024-05-31 00:00 UTC"
    assert lines[1] == "0 of 900 sentences until the next training"
    rows = [line.split() for line in lines[-2:]]
    assert rows[0][0] == "med-v2"
    assert rows[0][-3:] == ["it", "is", "worse"]
    assert rows[1][0] == "med-v1"
    assert rows[1][-4:] == ["298", "0.71", "DRUG", "0.75"]
    assert [each["model"] for each in json.loads(show(harness, "--json"))["trainings"]] == ["med-v2", "med-v1"]


def test_a_running_training_shows_how_far_it_is(harness: CommandHarness) -> None:
    progress = {"step": "encode", "done": 100, "total": 300}
    running = make_training("med-v1", result="running", progress=progress)
    harness.append(build_training_message("labelwatch.models", running))
    assert "med-v1 is being trained: encode 100 of 300" in show(harness)


def test_an_unknown_dataset_is_named(harness: CommandHarness) -> None:
    harness.append_settings(name="law", version=1)
    result = harness.run("datasets", "models", "med")
    assert result.code == 1
    assert "the dataset 'med' is not known: the datasets are law" in result.err
