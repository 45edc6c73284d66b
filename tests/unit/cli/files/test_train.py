"""`labelwatch train`, and the model registry, from a user's seat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.training_data import make_training_text, to_conll

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.training_data import TrainingText
    from tests.unit.cli.conftest import RunCommand


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "models"
    monkeypatch.setenv("LABELWATCH_MODELS_PATH", str(path))
    return path


@pytest.fixture
def text() -> TrainingText:
    return make_training_text(300, seed=5, n_errors=8)


@pytest.fixture
def data(text: TrainingText, tmp_path: Path) -> Path:
    path = tmp_path / "med.conll"
    path.write_text(to_conll(text.sentences))
    return path


def test_one_command_from_labelled_data_to_the_errors_in_it(
    run: RunCommand, data: Path, text: TrainingText, models: Path, tmp_path: Path
) -> None:
    ran = run("train", data, "--name", "med", "--encoder", "none", "--report", tmp_path / "report.html")
    assert ran.code == 0, ran.err
    assert "DRUG" in ran.out
    assert "good enough to review with" in ran.out
    shown = {int(line.split()[2].partition(":")[2]) - 1 for line in ran.out.splitlines() if " med.conll:" in line}
    assert len(shown) == 10
    assert len(shown & text.wrong) >= 6
    assert "warning: 300 sentences are few, 500 are a good start" in ran.err
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert '<th scope="row">DRUG</th>' in page
    assert page.index("good enough to review with") < page.index("Sentence scores")
    assert [path.name for path in models.iterdir()] == ["med"]


def test_a_trained_model_scores_and_is_listed_checked_added_and_removed(
    run: RunCommand, data: Path, models: Path, tmp_path: Path
) -> None:
    assert run("train", data, "--name", "med", "--encoder", "none").code == 0
    scored = run("score", data, "--model", "med", "--output", tmp_path / "out.jsonl")
    assert scored.code == 0, scored.err
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 300
    assert run("model", "list").out.splitlines()[2].split()[:2] == ["med", "trained"]
    assert "The folder works." in run("model", "check", "med").out
    assert run("model", "add", models / "med", "--name", "copy").code == 0
    twice = run("model", "add", models / "med", "--name", "copy")
    assert (twice.code, "has a model 'copy': remove it first" in twice.err) == (1, True)
    assert run("model", "remove", "copy", "--yes").code == 0
    assert [path.name for path in models.iterdir()] == ["med"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--name", "Über uns"], "is not a model name: use lower-case letters"),
        (["--name", "../etc"], "is not a model name"),
        (["--name", "med", "--encoder", "nowhere"], "nowhere has no encoder.json"),
        (["--name", "med", "--report", "-", "--output", "-"], "--output already writes to standard output"),
    ],
)
def test_wrong_options_are_refused_before_any_work(
    run: RunCommand, data: Path, models: Path, arguments: list[str], problem: str
) -> None:
    ran = run("train", data, *arguments)
    assert ran.code in (1, 2)
    assert problem in " ".join(ran.err.replace("│", " ").split())
    assert not models.exists()


def test_a_model_is_replaced_only_on_request(run: RunCommand, data: Path, models: Path) -> None:
    assert run("train", data, "--name", "med", "--encoder", "none").code == 0
    before = (models / "med" / "model.json").read_bytes()
    refused = run("train", data, "--name", "med", "--encoder", "none")
    assert (refused.code, "replace it with --replace" in " ".join(refused.err.replace("│", " ").split())) == (2, True)
    assert (models / "med" / "model.json").read_bytes() == before
    assert run("train", data, "--name", "med", "--encoder", "none", "--replace").code == 0


def test_a_missing_file_is_named(run: RunCommand) -> None:
    ran = run("train", "nowhere.conll", "--name", "med", "--encoder", "none")
    assert (ran.code, "nowhere.conll: can't be read: No such file or directory" in ran.err) == (1, True)


def test_standard_input_is_refused(run: RunCommand) -> None:
    ran = run("train", "-", "--name", "med")
    assert (ran.code, "training reads the files twice" in " ".join(ran.err.replace("│", " ").split())) == (2, True)


def test_few_sentences_are_refused_in_one_sentence(run: RunCommand, tmp_path: Path, models: Path) -> None:
    few = tmp_path / "few.conll"
    few.write_text(to_conll(make_training_text(40).sentences))
    ran = run("train", few, "--name", "med", "--encoder", "none")
    assert ran.code == 1
    assert "training needs at least 100 labelled sentences, there are 40: label more" in ran.err
    assert not models.exists()


def test_conflicting_and_rare_labels_are_named(run: RunCommand, text: TrainingText, tmp_path: Path) -> None:
    first = next(sentence for sentence in text.sentences if set(sentence.labels) != {"O"})
    again = first.model_copy(update={"labels": ("B-RARE", *("O",) * (len(first.tokens) - 1))})
    path = tmp_path / "med.conll"
    path.write_text(to_conll([*text.sentences, again]))
    ran = run("train", path, "--name", "med", "--encoder", "none")
    assert ran.code == 0, ran.err
    assert "1 sentence occurs more than once with different labels" in ran.err
    assert "types with fewer than 10 examples are not judged: RARE (1)" in ran.err
    assert "not judged: too few examples" in ran.out


def test_a_model_that_is_not_there_is_named_with_the_nearest(run: RunCommand, data: Path) -> None:
    empty = run("score", data, "--model", "med")
    assert (empty.code, "has no model 'med': it is empty; `labelwatch train`" in empty.err) == (1, True)
    assert run("train", data, "--name", "med", "--encoder", "none").code == 0
    ran = run("score", data, "--model", "mde")
    assert (ran.code, "has no model 'mde' (did you mean 'med'?)" in ran.err) == (1, True)
