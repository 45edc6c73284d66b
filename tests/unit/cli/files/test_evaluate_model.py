"""`labelwatch evaluate --model`: figures for a model and a pair of files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from service.cli.files.evaluate import evaluate
from service.errors import InvalidInput, UnknownLabelError
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
WORDS = ("the", "quick", "brown", "fox", "Oslo", "dog", "in")

app = typer.Typer()
app.command()(evaluate)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("tiny"), "wordpiece", labels=LABELS)


def write(path: Path, sentences: list[list[tuple[str, str]]]) -> Path:
    path.write_text("".join("\n".join(f"{w}\t{t}" for w, t in s) + "\n\n" for s in sentences), encoding="utf-8")
    return path


def corpus(tmp_path: Path) -> tuple[Path, Path]:
    rng = np.random.default_rng(0)
    truth, given = [], []
    for number in range(40):
        words = rng.choice(WORDS, 6).tolist()
        tags = rng.choice(["O", "B-PER", "B-LOC"], 6).tolist()
        truth.append(list(zip(words, tags, strict=True)))
        noisy = ["B-LOC" if number % 5 == 0 and index == 2 and tag == "O" else tag for index, tag in enumerate(tags)]
        given.append(list(zip(words, noisy, strict=True)))
    given.append([("#", "O"), ("fox", "O")])
    truth.append([("#", "O"), ("fox", "B-PER")])
    return write(tmp_path / "given.tsv", given), write(tmp_path / "corrected.tsv", truth)


def test_a_model_and_two_files_give_the_tables(model: Path, tmp_path: Path) -> None:
    given, corrected = corpus(tmp_path)
    result = run(given, corrected, "--model", model, "--stream", "--bootstrap", 0, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert f"# Label errors found in {given.name} with the model " in result.output
    document = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    results = {(r["level"], r["method"], r["mode"], r["classes"]) for r in document["results"]}
    for mode in ("batch", "stream"):
        for classes in (5, 3):
            assert ("sentence", "worst-token", mode, classes) in results
            assert ("sentence", "priority", mode, classes) in results
    assert "f1" in document


def test_memory_and_a_second_correction(model: Path, tmp_path: Path) -> None:
    given, corrected = corpus(tmp_path)
    second = tmp_path / "second.tsv"
    second.write_text(given.read_text())
    options = ("--model", model, "--stream", "--bootstrap", 0, "--memory", "documents", "--out", tmp_path / "out")
    result = run(given, corrected, "--second-corrected", second, *options)
    assert result.exit_code == 0, result.output
    assert "Sentences on which both corrections agree" in result.output
    document = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert "documents" in {row["memory"] for row in document["results"]}
    wrong = document["data"]["variants"]["unmerged"]["wrong_sentences"]
    assert document["agreed"]["sentences"]["unmerged"] == document["data"]["kept_sentences"] - wrong
    second.write_text("the\tO\n")
    error = run(given, corrected, "--second-corrected", second, *options).exception
    assert isinstance(error, InvalidInput)
    assert error.field == "second-corrected"


def test_files_that_do_not_pair_up_are_refused(model: Path, tmp_path: Path) -> None:
    given, corrected = corpus(tmp_path)
    shorter = write(tmp_path / "short.tsv", [[("the", "O")]])
    assert isinstance(run(given, shorter, "--model", model).exception, InvalidInput)
    text = corrected.read_text().replace("Oslo", "Bergen")
    corrected.write_text(text)
    error = run(given, corrected, "--model", model).exception
    assert isinstance(error, InvalidInput)
    assert "words differ" in str(error)


def test_a_label_the_model_does_not_know_is_named(model: Path, tmp_path: Path) -> None:
    given = write(tmp_path / "g.tsv", [[("fox", "B-ANIMAL")]])
    error = run(given, given, "--model", model).exception
    assert isinstance(error, UnknownLabelError)
    assert "ANIMAL" in str(error)


def test_one_file_alone_is_wrong_usage(model: Path, tmp_path: Path) -> None:
    given, _ = corpus(tmp_path)
    result = run(given, "--model", model)
    assert result.exit_code == 2
    assert "GIVEN and CORRECTED" in result.stderr
