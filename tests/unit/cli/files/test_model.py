"""`labelwatch model`: which datasets use a model of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command_harness import CommandHarness


@pytest.fixture
def models(harness: CommandHarness) -> Path:
    """A registry with two models."""
    path = harness.folder / "models"
    for name in ("med", "news"):
        make_model(path / name, "wordpiece")
    harness.variables = {"LABELWATCH_MODELS_PATH": str(path)}
    return path


def list_users(harness: CommandHarness) -> dict[str, list[str]]:
    """The last column: what follows the fingerprint."""
    rows = [line.split() for line in harness.run("model", "list").out.splitlines()[1:]]
    fingerprints = [next(k for k, word in enumerate(row) if len(word) == 12) for row in rows]
    return {row[0]: row[k + 1 :] for row, k in zip(rows, fingerprints, strict=True)}


def test_models_are_listed_with_the_datasets_that_use_them(harness: CommandHarness, models: Path) -> None:
    assert list_users(harness) == {"light": [], "med": [], "news": []}
    assert not harness.log_path.exists()
    for dataset in ("trials", "cases"):
        harness.append_settings(name=dataset, version=1, model="med")
    harness.append_settings(name="plain", version=1)
    harness.append_settings(name="quick", version=1, model="light")
    assert list_users(harness) == {"light": ["quick"], "med": ["cases,", "trials"], "news": []}


def test_a_registry_without_models_has_only_what_is_included(harness: CommandHarness) -> None:
    harness.variables = {"LABELWATCH_MODELS_PATH": str(harness.folder / "models")}
    _, light, hint = harness.run("model", "list").out.splitlines()
    assert light.split()[:2] == ["light", "included"]
    assert "has no models: add one with `labelwatch train`" in hint
    make_model(harness.folder / "models" / "light", "wordpiece")  # one of the same name takes its place
    _, light = harness.run("model", "list").out.splitlines()
    assert light.split()[:2] == ["light", "classifier"]


def test_without_models_the_list_names_those_that_are_included(harness: CommandHarness) -> None:
    ran = harness.run("model", "list", LABELWATCH_MODELS_PATH=str(harness.folder / "none"))
    assert "has no models" in ran.out
    assert "The default model and light are part of labelwatch" in ran.out


def test_a_model_that_a_dataset_uses_is_not_removed(harness: CommandHarness, models: Path) -> None:
    harness.append_settings(name="trials", version=1, model="med")
    refused = harness.run("model", "remove", "med", "--yes")
    assert refused.code == 1
    assert "med judges trials, and would be missing there" in refused.err
    assert (models / "med").is_dir()
    assert harness.run("model", "remove", "news", "--yes").code == 0
    assert harness.run("model", "remove", "med", "--yes", "--force").code == 0
    assert not any(models.glob("[!.]*"))


@pytest.mark.parametrize("name", ["light", "default"])
def test_an_included_model_is_neither_removed_nor_added(harness: CommandHarness, models: Path, name: str) -> None:
    removed = harness.run("model", "remove", name, "--yes")
    assert removed.code == 1
    assert f"{name} is part of labelwatch and can't be removed" in removed.err
    added = harness.run("model", "add", name)
    assert added.code == 1
    assert f"{name} is the name of a model that is part of labelwatch" in added.err


def test_a_model_may_take_the_place_of_an_included_one(harness: CommandHarness, models: Path) -> None:
    added = harness.run("model", "add", models / "med", "--name", "light")
    assert added.code == 0
    assert "light is also the name of a model that is part of labelwatch: this one takes its place" in added.err
    assert harness.run("model", "remove", "light", "--yes").code == 0
    assert "part of labelwatch" in harness.run("model", "remove", "light", "--yes").err


def test_a_log_that_cannot_be_read_is_not_a_log_without_datasets(harness: CommandHarness, models: Path) -> None:
    harness.log_path.write_bytes(b"no database" * 100)
    assert list_users(harness) == {"light": ["?"], "med": ["?"], "news": ["?"]}
    refused = harness.run("model", "remove", "med", "--yes")
    assert refused.code == 1
    assert "give --force" in refused.err
    assert (models / "med").is_dir()
