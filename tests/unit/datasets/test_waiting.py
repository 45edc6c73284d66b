from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import DatasetSettings
from service.datasets.waiting import find_waiting, fits_model
from service.statistics.arrivals import OTHER_LABELS, ArrivalCounts

if TYPE_CHECKING:
    from service.datasets.registry import DatasetRegistry
    from service.judging.judge import Judge

DRUGS = ArrivalCounts({"B-DRUG": 30, "I-DRUG": 10, "B-DOSE": 20, "B-PER": 5}, waiting=42)


def build_judge(registry: DatasetRegistry, **settings: Any) -> Judge:
    return registry.build_judge(DatasetSettings.model_validate({"name": "med", **settings}))


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ({}, True),
        ({"B-PER": 1}, True),
        ({"B-DRUG": 1}, False),
        ({"B-PER": 3, "B-PRE": 1}, False),
        ({"B-PER": 4, "B-PRE": 1}, True),
        ({"B-PER": 3, "I-PER": 1, "B-PRE": 1}, True),
        ({"B-PER": 39, "B-DRUG": 5, "B-DOSE": 5}, False),
        ({"B-PER": 40, "B-DRUG": 5, "B-DOSE": 5}, True),
        ({OTHER_LABELS: 1, "B-PER": 3}, False),
    ],
)
def test_a_dataset_fits_if_labels_with_a_class_clearly_outnumber_the_others(
    registry: DatasetRegistry, labels: dict[str, int], fits: bool
) -> None:
    assert fits_model(build_judge(registry), ArrivalCounts(labels)) is fits


@pytest.mark.parametrize("settings", [{"label_set": ["PER"]}, {"unmapped": "unscored"}])
def test_settings_that_say_what_labels_mean_are_not_questioned(
    registry: DatasetRegistry, settings: dict[str, Any]
) -> None:
    assert fits_model(build_judge(registry, **settings), DRUGS)


def test_a_label_map_that_covers_the_labels_makes_the_dataset_fit(registry: DatasetRegistry) -> None:
    assert not fits_model(build_judge(registry, label_map={"DRUG": "MISC"}), DRUGS)
    assert fits_model(build_judge(registry, label_map={"DRUG": "MISC", "DOSE": "O"}), DRUGS)


def test_a_waiting_dataset_names_its_unknown_labels_and_what_to_do(registry: DatasetRegistry) -> None:
    waiting = find_waiting(build_judge(registry), DRUGS)
    assert waiting is not None
    assert (waiting.name, waiting.sentences, waiting.fits) == ("med", 42, False)
    assert list(waiting.unknown_labels.items()) == [("B-DRUG", 30), ("B-DOSE", 20), ("I-DRUG", 10)]
    assert "train a model for these labels" in waiting.advice
    assert "labelwatch datasets set med label_map.DRUG=TYPE" in waiting.advice


def test_while_stored_sentences_are_released_the_dataset_fits(registry: DatasetRegistry) -> None:
    waiting = find_waiting(build_judge(registry, label_map={"DRUG": "MISC", "DOSE": "O"}), DRUGS)
    assert waiting is not None
    assert (waiting.sentences, waiting.fits, waiting.unknown_labels, waiting.advice) == (42, True, {}, "")


def test_a_dataset_without_stored_sentences_does_not_wait(registry: DatasetRegistry) -> None:
    assert find_waiting(build_judge(registry), ArrivalCounts({"B-DRUG": 30})) is None


def test_labels_that_are_not_counted_by_name_are_not_listed(registry: DatasetRegistry) -> None:
    waiting = find_waiting(build_judge(registry), ArrivalCounts({OTHER_LABELS: 3}, waiting=3))
    assert waiting is not None
    assert (waiting.unknown_labels, waiting.fits, waiting.advice) == ({}, False, "")
