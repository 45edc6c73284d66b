"""Whether a trained model may replace the one in use: the rule, and F1 of another model on the same folds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.contracts import DatasetSettings
from service.inference.classifier import Classifier
from service.inference.model.folder import ModelFolder
from service.labels import Scheme
from service.training.comparison import compute_difference, compute_model_f1
from service.training.sentences import collect_sentences
from service.training.trainer import train_model
from tests.support.training_data import make_training_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("new", "old", "is_worse"),
    [
        ((0.7, 0.7, 0.7, 0.7, 0.7), (0.7, 0.7, 0.7, 0.7, 0.7), False),
        ((0.69, 0.69, 0.69, 0.69, 0.69), (0.7, 0.7, 0.7, 0.7, 0.7), True),  # worse in each fold by the same
        ((0.60, 0.72, 0.66, 0.75, 0.70), (0.7, 0.7, 0.7, 0.7, 0.7), False),  # worse by .014, and .026 is the noise
        ((0.60, 0.62, 0.66, 0.65, 0.60), (0.7, 0.7, 0.7, 0.7, 0.7), True),
        ((0.9, 0.8, 0.7, 0.9, 0.8), (0.7, 0.7, 0.7, 0.7, 0.7), False),
    ],
)
def test_worse_means_by_more_than_two_standard_errors(
    new: tuple[float, ...], old: tuple[float, ...], is_worse: bool
) -> None:
    assert compute_difference(new, old).is_worse is is_worse


def test_the_standard_error_is_that_of_the_paired_differences() -> None:
    difference = compute_difference((0.5, 0.7), (0.4, 0.4))
    assert difference.mean == pytest.approx(0.2)
    assert difference.standard_error == pytest.approx(0.1)  # stdev(.1, .3) / sqrt(2)


def test_a_model_judges_its_own_training_sentences_as_its_figures_say(tmp_path: Path) -> None:
    """Each sentence is judged by the head that did not see it, in the figures and in the comparison."""
    data = collect_sentences(make_training_text(150, seed=3, n_errors=15).sentences, Scheme.IOB2)
    trained = train_model(data, tmp_path / "m", name="m", encoder=None, threads=1)
    classifier = Classifier(ModelFolder.load(tmp_path / "m"))
    f1, by_fold = compute_model_f1(data, classifier, DatasetSettings())
    assert f1 == pytest.approx(trained.figures.f1)
    assert by_fold == pytest.approx(trained.figures.f1_by_fold)


def test_the_label_map_of_the_model_in_use_counts(tmp_path: Path) -> None:
    text = make_training_text(150, seed=3)
    train_model(collect_sentences(text.sentences, Scheme.IOB2), tmp_path / "m", name="m", encoder=None, threads=1)
    renamed = [
        each.model_copy(update={"labels": tuple(label.replace("DRUG", "MEDICINE") for label in each.labels)})
        for each in text.sentences
    ]
    data, classifier = collect_sentences(renamed, Scheme.IOB2), Classifier(ModelFolder.load(tmp_path / "m"))
    mapped, _ = compute_model_f1(data, classifier, DatasetSettings(label_map={"MEDICINE": "DRUG"}))
    unmapped, _ = compute_model_f1(data, classifier, DatasetSettings())
    assert mapped > 0.95
    assert unmapped < 0.6
