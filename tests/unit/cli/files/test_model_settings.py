"""Commands that run a model on files use the settings of the model, as the service does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnxruntime as ort
import pytest

from service.inference.model.folder import ModelFolder
from service.inference.providers import PROVIDERS
from tests.support.command_harness import make_sentences
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_harness import CommandHarness

MISSING = next(name for name, each in PROVIDERS.items() if each.ort_name not in ort.get_available_providers())


@pytest.fixture
def file(harness: CommandHarness) -> Path:
    return harness.write_file(make_sentences(60))


def describe_model(path: Path) -> str:
    folder = ModelFolder.load(path)
    return f"judged by {folder.name} ({folder.fingerprint[:12]})"


def test_files_are_judged_by_the_model_that_the_settings_name(harness: CommandHarness, file: Path) -> None:
    other = make_model(harness.folder / "models" / "other", "wordpiece", seed=7)
    harness.variables = {"LABELWATCH_MODELS_PATH": str(harness.folder / "models")}
    assert describe_model(harness.model) in harness.run("score", file).err
    assert describe_model(other) in harness.run("score", file, LABELWATCH_MODEL_FOLDER="other").err
    assert describe_model(other) in harness.run("score", file, "--model", "other").err
    evaluated = harness.run("evaluate", file, file, "--bootstrap", 0)
    assert f"with the model {ModelFolder.load(harness.model).name}" in evaluated.out
    assert (
        ModelFolder.load(other).fingerprint[:12] in harness.run("model", "check", LABELWATCH_MODEL_FOLDER="other").out
    )


def test_a_model_that_the_settings_name_and_that_is_missing_is_an_error(harness: CommandHarness, file: Path) -> None:
    for command in (("score", file), ("evaluate", file, file), ("model", "check")):
        ran = harness.run(*command, LABELWATCH_MODEL_FOLDER="nowhere")
        assert ran.code == 1, command
        assert ran.err.startswith("labelwatch: LABELWATCH_MODEL_FOLDER: nowhere is not a folder")


def test_a_path_that_holds_no_model_is_named_with_what_named_it(harness: CommandHarness, file: Path) -> None:
    missing, empty = harness.folder / "nope", harness.folder / "empty"
    empty.mkdir()
    for path in (missing, empty):
        for command in (("score", file), ("evaluate", file, file), ("model", "check"), ("worker", "--once")):
            ran = harness.run(*command, LABELWATCH_MODEL_FOLDER=str(path))
            assert ran.code == 1, command
            assert ran.err.splitlines()[-1].startswith(f"labelwatch: LABELWATCH_MODEL_FOLDER: {path}"), command
        for chosen in (("score", file), ("evaluate", file, file), ("replay", "--from", "0")):
            ran = harness.run(*chosen, "--model", path)
            assert ran.code == 1, chosen
            assert ran.err.splitlines()[-1].startswith(f"labelwatch: --model: {path}"), chosen
    ran = harness.run("model", "check", missing)
    assert ran.err == f"labelwatch: {missing} is not a folder: name the folder that holds the model\n"


def test_the_providers_of_the_settings_run_the_model(harness: CommandHarness, file: Path) -> None:
    train = ("train", file, "--name", "own", "--encoder", "none")
    for command in (("score", file), ("evaluate", file, file), ("model", "check"), train):
        ran = harness.run(*command, LABELWATCH_MODEL_PROVIDERS=f"{MISSING},cpu")
        assert ran.code == 1, command
        assert f"LABELWATCH_MODEL_PROVIDERS: the installed onnxruntime has no {PROVIDERS[MISSING].ort_name}" in ran.err
