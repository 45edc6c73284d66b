"""The first minutes of a team with its own labels: 40 sentences with DRUG, DISEASE and SYMPTOM, and no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command_harness import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import RunCommand

SAMPLE = ROOT / "models" / "sample" / "biomedical.tsv"


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "models"
    monkeypatch.setenv("LABELWATCH_MODELS_PATH", str(path))
    return path


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    path = tmp_path / "trial.conll"
    path.write_text("\n\n".join(SAMPLE.read_text().split("\n\n")[:40]) + "\n")
    return path


def test_score_names_the_labels_and_advises_training_first(run: RunCommand, trial: Path, models: Path) -> None:
    ran = run("score", trial)
    assert ran.code == 1
    assert "trial.conll:1" in ran.err
    assert all(name in ran.err for name in ("DRUG", "DISEASE", "SYMPTOM"))
    assert 0 < ran.err.index("labelwatch train") < ran.err.index("--map")
    assert "Traceback" not in ran.err
    assert not models.exists()


def test_train_says_how_many_sentences_are_missing_and_writes_nothing(
    run: RunCommand, trial: Path, models: Path
) -> None:
    ran = run("train", trial, "--name", "med")
    assert ran.code == 1
    assert "training needs at least 100 labelled sentences, there are 40: label more" in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert not models.exists()


def test_with_all_sentences_train_finds_errors_and_score_uses_the_model(
    run: RunCommand, trial: Path, models: Path
) -> None:
    trained = run("train", SAMPLE, "--name", "med", "--encoder", "none")
    assert trained.code == 0, trained.err
    assert {"DRUG", "DISEASE", "SYMPTOM"} <= set(trained.out.split())
    assert "next: labelwatch score FILE --model med" in trained.err
    scored = run("score", trial, "--model", "med")
    assert scored.code == 0, scored.err
    assert "40 sentences" in scored.err
    assert [path.name for path in models.iterdir()] == ["med"]


def test_sent_sentences_wait_for_a_model_and_are_no_dead_letters(
    run: RunCommand, trial: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LABELWATCH_LOG_PATH", str(tmp_path / "log.sqlite"))
    assert run("send", trial, "--dataset", "med").code == 0
    worked = run("worker", "--once")
    assert worked.code == 0, worked.err
    assert "40 messages read, 0 to review, 0 dead letters, 40 waiting" in worked.err
    listed = run("datasets", "list").out
    assert "40 sentences of med wait for a model" in listed
    assert 0 < listed.index("labelwatch train") < listed.index("labelwatch datasets set med label_map")
    assert "0 dead letters" in run("dead-letters", "list").err
    set_up = run("datasets", "set", "med", "label_map.DRUG=MISC", "label_map.DISEASE=MISC", "label_map.SYMPTOM=MISC")
    assert "the worker judges the 40 stored sentences of med now" in set_up.out, set_up.err
    assert "0 messages read" in run("worker", "--once").err
    assert "med: 40 sentences learned from" in run("thresholds", "show", "med").out
