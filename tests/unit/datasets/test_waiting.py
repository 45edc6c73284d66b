from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import DatasetSettings
from service.datasets.waiting import MAX_LISTED_LABELS, WaitingDatasets, explain_waiting, find_waiting, fits_model
from service.errors import MissingModelError
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


def test_a_dataset_whose_unmapped_labels_are_unscored_needs_no_other_model(registry: DatasetRegistry) -> None:
    assert fits_model(build_judge(registry, unmapped="unscored"), DRUGS)


def test_labels_outside_the_label_set_are_no_reason_to_wait_and_those_in_it_are(registry: DatasetRegistry) -> None:
    assert fits_model(build_judge(registry, label_set=["PER"]), DRUGS)
    judge = build_judge(registry, label_set=["PER", "DRUG"])
    assert not fits_model(judge, DRUGS)
    waiting = find_waiting(judge, DRUGS)
    assert waiting is not None
    assert set(waiting.unknown_labels) == {"B-DRUG", "I-DRUG"}


def test_the_text_counts_sentences_and_lists_labels(registry: DatasetRegistry) -> None:
    waiting = find_waiting(build_judge(registry), DRUGS)
    assert waiting is not None
    text = explain_waiting(waiting)
    assert text.startswith(
        "42 sentences of med wait for a model: labels without a class are 'B-DRUG' (30), 'B-DOSE' (20), 'I-DRUG' (10). "
    )
    assert waiting.advice in text
    many = ArrivalCounts({f"B-{number}": 1 for number in range(MAX_LISTED_LABELS + 2)}, waiting=1)
    totals = {"med": many, "fine": ArrivalCounts({"B-PER": 1})}
    [each] = WaitingDatasets(lambda _: build_judge(registry)).list_all(totals)
    assert explain_waiting(each).startswith("1 sentence of med waits for a model: ")
    assert "and 2 more" in explain_waiting(each)


def test_an_answer_is_used_again_until_judge_or_counts_change(registry: DatasetRegistry) -> None:
    """A worker asks in every step: 200 datasets with 1,000 labels each took .8 s."""
    judges = {"med": build_judge(registry)}
    datasets = WaitingDatasets(judges.__getitem__)
    [first] = datasets.list_all({"med": DRUGS})
    assert datasets.list_all({"med": DRUGS})[0] is datasets.find("med", DRUGS) is first
    [more] = datasets.list_all({"med": DRUGS.store()})
    assert more.sentences == first.sentences + 1
    judges["med"] = build_judge(registry, unmapped="unscored")
    [fitting] = datasets.list_all({"med": DRUGS})
    assert (first.fits, fitting.fits) == (False, True)
    assert datasets.list_all({}) == ()


def test_a_dataset_whose_model_goes_and_comes_back_is_found_either_way(registry: DatasetRegistry) -> None:
    judges = {"med": build_judge(registry)}

    def get_judge(name: str) -> Judge:
        if name not in judges:
            raise MissingModelError("the model is not there")
        return judges[name]

    datasets = WaitingDatasets(get_judge)
    before = datasets.find("med", DRUGS)
    judge = judges.pop("med")
    missing = datasets.find("med", DRUGS)
    assert missing is not None
    assert (missing.fits, missing.advice) == (False, "The model is not there")
    judges["med"] = judge
    assert datasets.find("med", DRUGS) == before


def test_types_of_a_label_set_that_no_class_fits_wait_for_a_model(registry: DatasetRegistry) -> None:
    """A team names its labels before it has a model: nothing that it sends may be lost."""
    judge = build_judge(registry, label_set=["DRUG", "DOSE"])
    assert not fits_model(judge, DRUGS)
    waiting = find_waiting(judge, DRUGS)
    assert waiting is not None
    assert list(waiting.unknown_labels) == ["B-DRUG", "B-DOSE", "I-DRUG"]  # PER is outside the label set
    assert fits_model(build_judge(registry, label_set=["DRUG"], label_map={"DRUG": "MISC"}), DRUGS)


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
    assert explain_waiting(waiting) == "42 sentences of med that waited for a model are being judged"


def test_a_dataset_without_stored_sentences_does_not_wait(registry: DatasetRegistry) -> None:
    assert find_waiting(build_judge(registry), ArrivalCounts({"B-DRUG": 30})) is None


def test_labels_that_are_not_counted_by_name_are_not_listed(registry: DatasetRegistry) -> None:
    waiting = find_waiting(build_judge(registry), ArrivalCounts({OTHER_LABELS: 3}, waiting=3))
    assert waiting is not None
    assert (waiting.unknown_labels, waiting.fits, waiting.advice) == ({}, False, "")
    assert explain_waiting(waiting) == "3 sentences of med wait for a model"
