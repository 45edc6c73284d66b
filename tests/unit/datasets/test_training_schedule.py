"""When a dataset's model is trained."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import DatasetSettings
from service.datasets.training_schedule import (
    MIN_RETRY_INTERVAL,
    build_dataset_models,
    compute_due_at,
    compute_retry_at,
    is_due,
    wants_training,
)
from tests.unit.datasets.test_trainings import START, make_training

if TYPE_CHECKING:
    from service.contracts import Training


@pytest.mark.parametrize(
    ("results", "due_at"),
    [
        ((), 300),
        (("used",), 450),
        (("not_used",), 450),
        (("refused",), 450),  # the same data would be refused again
        (("failed",), 300),
        (("stopped",), 300),
        (("failed", "used"), 450),
        (("running", "used"), 450),
    ],
)
def test_a_training_is_due_after_growth_by_half(results: tuple[str, ...], due_at: int) -> None:
    trainings = [make_training(f"med-v{number}", result=result) for number, result in enumerate(results)]
    assert compute_due_at(trainings, min_sentences=300) == due_at
    assert is_due(trainings, arrived=due_at, min_sentences=300, now=START + timedelta(days=2))
    assert not is_due(trainings, arrived=due_at - 1, min_sentences=300, now=START + timedelta(days=2))


def test_a_raised_minimum_counts_for_later_trainings_too() -> None:
    assert compute_due_at([make_training("med-v1", arrived=100)], min_sentences=1_000) == 1_000


def test_failures_are_repeated_after_pauses_that_double_up_to_a_day() -> None:
    def make_failures(n: int) -> list[Training]:
        return [make_training(f"med-v{number}", result="failed", ended_at=START) for number in range(n)]

    pauses = [(compute_retry_at(make_failures(n)) or START) - START for n in (0, 1, 2, 3, 50)]
    assert pauses == [
        timedelta(0),
        MIN_RETRY_INTERVAL,
        2 * MIN_RETRY_INTERVAL,
        4 * MIN_RETRY_INTERVAL,
        timedelta(days=1),
    ]
    failed = make_failures(1)
    assert not is_due(failed, arrived=300, min_sentences=300, now=START)
    assert is_due(failed, arrived=300, min_sentences=300, now=START + MIN_RETRY_INTERVAL)
    assert compute_retry_at([make_training("med-v2"), *failed]) is None


@pytest.mark.parametrize(
    ("settings", "waiting", "default", "wanted"),
    [
        ({}, 0, True, False),
        ({}, 5, True, True),
        ({}, 5, False, False),
        ({"auto_train": True}, 0, False, True),
        ({"auto_train": False}, 5, True, False),
        ({"model": "med-v1"}, 0, True, True),  # the trainer made it
        ({"model": "med-v2"}, 0, True, False),  # the trainer made it, and did not use it
        ({"model": "mine"}, 0, True, False),
    ],
)
def test_who_is_trained(settings: dict[str, Any], waiting: int, default: bool, wanted: bool) -> None:
    trainings = [make_training("med-v2", result="not_used"), make_training("med-v1")]
    assert wants_training(DatasetSettings(**settings), trainings, waiting=waiting, default=default) is wanted


def test_the_models_of_a_dataset() -> None:
    training = make_training("med-v1", ended_at=START)
    models = build_dataset_models(
        DatasetSettings(name="med", model="med-v1"),
        [training],
        waiting=0,
        arrived=310,
        min_sentences=300,
        default=True,
    )
    assert (models.model, models.used_since, models.auto_train, models.due_at) == ("med-v1", START, True, 450)
    assert models.trainings == (training,)
