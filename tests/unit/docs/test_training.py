"""docs/training.md: its numbers are those of the code."""

from __future__ import annotations

from datetime import timedelta

import pytest

from service.contracts.defaults import MIN_TRAINING_SENTENCES
from service.datasets.training_schedule import MIN_RETRY_INTERVAL
from service.inference.features.folds import N_FOLDS
from service.settings import Settings
from service.training.figures import FAIR_F1, GOOD_F1, WARN_SENTENCES, WARN_TYPE_EXAMPLES, TypeFigures
from service.training.sentences import MAX_TRAINING_WORDS, MIN_SENTENCES, MIN_TYPE_EXAMPLES
from tests.support.docs_pages import DOCS

TEXT = (DOCS / "training.md").read_text()
GOOD, FAIR = (f"{limit:g}".removeprefix("0") for limit in (GOOD_F1, FAIR_F1))


@pytest.mark.parametrize(
    "sentence",
    [
        f"into {N_FOLDS} folds",
        f"at least {MIN_SENTENCES} sentences. With fewer than {WARN_SENTENCES} it warns",
        f"More than {MAX_TRAINING_WORDS:,} words",
        f"fewer than {WARN_TYPE_EXAMPLES} examples |",
        f"fewer than {MIN_TYPE_EXAMPLES} examples: words",
        f"F1 of {GOOD} or more",
        f"F1 from {FAIR} to {GOOD}",
        f"F1 below {FAIR}",
        f"{MIN_TRAINING_SENTENCES} sentences (`LABELWATCH_TRAINER_MIN_SENTENCES`)",
        f"after {MIN_RETRY_INTERVAL // timedelta(minutes=1)} minutes, then after twice as long, up to a day",
        f"`{Settings().models.path}` or the path in `LABELWATCH_MODELS_PATH`",
    ],
)
def test_limits_are_those_of_the_code(sentence: str) -> None:
    assert sentence in " ".join(TEXT.split())


@pytest.mark.parametrize("f1", [GOOD_F1, FAIR_F1, 0.0])
def test_verdicts_are_those_of_the_code(f1: float) -> None:
    figures = TypeFigures("PER", examples=WARN_TYPE_EXAMPLES, precision=f1, recall=f1, f1=f1)
    assert f"| {figures.verdict} |" in TEXT
