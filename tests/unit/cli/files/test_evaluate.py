"""`labelwatch evaluate` from the outside."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from service.cli.files.evaluate import evaluate
from service.errors import InvalidInput, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

app = typer.Typer()
app.command()(evaluate)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def make(path: Path, *, seed: int = 3) -> Path:
    truth = np.random.default_rng(1).choice(5, 300, p=[0.6, 0.1, 0.1, 0.1, 0.1])
    given = truth.copy()
    given[::23] = (given[::23] + 1) % 5
    logits = np.random.default_rng(seed).normal(size=(300, 5)) + 3 * np.eye(5)[truth]
    np.savez(
        path,
        probs=np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True),
        given=given,
        corrected=truth,
        lengths=np.full(60, 5),
        keep=np.ones(60, dtype=bool),
        labels=np.array(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]),
        merge=np.array([0, 1, 1, 2, 2]),
    )
    return path


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    return make(tmp_path / "words.npz")


def test_prints_the_tables(npz: Path) -> None:
    result = run("--probs", npz, "--bootstrap", 10)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("# Label errors found in words\n")
    for title in ("## AUPRC", "## AUROC", "## Lift @ T", "## Precision @ K", "## Noise matrix, 5 classes"):
        assert title in result.stdout
    assert "stream" not in result.stdout
    assert result.stderr == ""


def test_writes_figures_tables_and_curves(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    result = run("--probs", npz, "--stream", "--out", out, "--bootstrap", 10)
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == {
        "evaluation.json",
        "tables.md",
        "precision_recall.png",
        "precision_at_k.png",
    }
    assert str(out / "evaluation.json") in result.stdout
    document = json.loads((out / "evaluation.json").read_text("utf-8"))
    results = {(r["level"], r["method"], r["token_score"], r["classes"], r["mode"]) for r in document["results"]}
    assert ("sentence", "worst-token", "self-confidence", 5, "batch") in results
    assert ("sentence", "priority", None, 3, "stream") in results
    assert ("sentence", "good-fraction", None, 5, "stream") in results
    assert len(results) == len(document["results"]) == 4 * 38
    assert "5 classes, stream" in (out / "tables.md").read_text("utf-8")


def test_the_same_seed_gives_the_same_tables(npz: Path) -> None:
    first, again, other = (run("--probs", npz, "--bootstrap", 20, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_chosen_classes_and_no_intervals(npz: Path) -> None:
    result = run("--probs", npz, "--classes", "merged", "--bootstrap", 0)
    assert result.exit_code == 0
    assert "3 classes, batch" in result.stdout
    assert "5 classes, batch" not in result.stdout
    assert "[" not in result.stdout


def test_difference_to_other_probabilities(npz: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other.npz", seed=4)
    result = run("--probs", npz, "--against", other, "--bootstrap", 30)
    assert result.exit_code == 0, result.output
    assert "## words against other" in result.stdout
    out = tmp_path / "out"
    assert run("--probs", npz, "--against", other, "--bootstrap", 30, "--out", out).exit_code == 0
    against = json.loads((out / "evaluation.json").read_text("utf-8"))["against"]
    assert against["name"] == "other"
    assert {row["metric"] for row in against["results"]} == {"auprc", "ap"}


def test_other_sentences_cant_be_compared(npz: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    arrays = dict(np.load(npz))
    np.savez(other, **arrays | {"given": arrays["corrected"]})
    result = run("--probs", npz, "--against", other)
    assert isinstance(result.exception, InvalidInput)
    assert "not the same sentences" in str(result.exception)


def test_a_bad_archive_is_refused_in_words(npz: Path) -> None:
    arrays = dict(np.load(npz))
    del arrays["lengths"]
    np.savez(npz, **arrays)
    result = run("--probs", npz)
    assert isinstance(result.exception, InvalidInput)
    assert "no array 'lengths'" in str(result.exception)


def test_without_matplotlib_the_figures_are_still_written(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    out = tmp_path / "out"
    result = run("--probs", npz, "--out", out, "--bootstrap", 0)
    assert result.exit_code == 0
    assert "labelwatch[plots]" in result.stderr
    assert {path.name for path in out.iterdir()} == {"evaluation.json", "tables.md"}


def test_a_folder_that_cant_be_written_to(npz: Path, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    result = run("--probs", npz, "--out", taken, "--bootstrap", 0)
    assert isinstance(result.exception, SettingsError)
    assert "can't create" in str(result.exception)


def test_a_folder_that_cant_be_written_to_is_an_error_before_any_work(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    result = run("--probs", tmp_path / "missing.npz", "--out", taken)
    assert isinstance(result.exception, SettingsError)
    assert str(taken) in str(result.exception)


@pytest.mark.parametrize(
    "arguments", [[], ["--probs", "x.npz", "given.tsv"], ["--probs", "x.npz", "--bootstrap", "-1"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage" in result.output
