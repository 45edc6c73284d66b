from __future__ import annotations

from typing import Any

import pytest

from service.contracts import Decision
from service.errors import InvalidInput
from service.labels import LabelMap, Scheme
from service.review.decisions import check_decision
from tests.support.review_queue import (
    NOW,
    QueueHarness,
    make_assessment,
    make_review_output,
)


def make_decision(**fields: Any) -> Decision:
    return Decision.model_validate({"id": "1", "reviewer": "ann", "verdict": "error", **fields})


@pytest.mark.parametrize(
    ("fields", "field", "text"),
    [
        ({"revision": 3}, "revision", "revision 3, the queue holds 0"),
        ({"id": "2"}, "id", "about default/2, not default/1"),
        ({"labels": ["O"]}, "labels", "1 label for 3 words"),
        ({"labels": ["O", "B-PER", "O"]}, "labels", "they are the given labels: correct at least one"),
        ({"labels": ["O", " ", "O"]}, "labels", "empty"),
        ({"verdict": "ok", "labels": ["O", "O", "O"]}, "labels", "need the verdict error"),
        ({"words": [3]}, "words", "no word 3"),
        ({"words": [-1]}, "words", "no word -1"),
        ({"words": [1, 1]}, "words", "twice"),
        ({"verdict": "unsure", "words": [1]}, "words", "need the verdict error"),
        ({"labels": ["O", "O", "O"], "words": [0]}, "words", "not the words whose label is corrected"),
    ],
)
def test_the_error_names_the_field_that_does_not_fit_the_item(
    harness: QueueHarness, fields: dict[str, Any], field: str, text: str
) -> None:
    harness.write(make_review_output(make_assessment("1")))
    with pytest.raises(InvalidInput, match=text) as caught:
        check_decision(harness.get_item("1"), make_decision(**fields))
    assert caught.value.field == field


def test_corrected_labels_must_be_labels_of_the_dataset(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("1")))
    labels = LabelMap.build(
        ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
        model_scheme=Scheme.IOB2,
        dataset_labels=None,
        dataset_scheme=Scheme.IOB2,
        mapping={"PLACE": "LOC"},
    )
    for label in ("B-PLACE", "B-LOC", "b-PER", "O"):
        assert check_decision(
            harness.get_item("1"), make_decision(labels=["O", label, "O"]), label_map=labels
        ).labels == (
            "O",
            label,
            "O",
        )
    for label in ("B-GHOST", "PLACE", "U-PLACE", "o"):
        with pytest.raises(InvalidInput, match=r"not a label of default.*PLACE") as caught:
            check_decision(harness.get_item("1"), make_decision(labels=["O", label, "O"]), label_map=labels)
        assert (caught.value.field, caught.value.word) == ("labels", 1)
    harness.write(make_review_output(make_assessment("1", labels=("B-ORG", "B-PER", "O"), revision=1)))
    unchanged = make_decision(labels=["B-ORG", "O", "O"], revision=1)  # B-ORG was given under earlier settings
    assert check_decision(harness.get_item("1"), unchanged, label_map=labels).labels == ("B-ORG", "O", "O")


def build_label_map(scheme: Scheme = Scheme.IOB2, label_set: tuple[str, ...] | None = None) -> LabelMap:
    return LabelMap.build(
        ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
        model_scheme=Scheme.IOB2,
        dataset_labels=None,
        dataset_scheme=scheme,
        label_set=label_set,
    )


@pytest.mark.parametrize(
    ("scheme", "labels", "word", "text"),
    [
        (Scheme.IOB2, ["I-PER", "I-LOC", "I-PER"], 0, "'I-PER' can't begin a sentence in scheme iob2: write 'B-PER'"),
        (Scheme.IOB2, ["B-PER", "I-LOC", "O"], 1, "'I-LOC' can't follow 'B-PER' in scheme iob2: write 'B-LOC' for"),
        (Scheme.IOB2, ["O", "I-PER", "O"], 1, "'I-PER' can't follow 'O' in scheme iob2: write 'B-PER'"),
        (Scheme.IOB1, ["B-PER", "O", "O"], 0, "'B-PER' can't begin a sentence in scheme iob1: write 'I-PER'"),
        (Scheme.BILUO, ["O", "B-LOC", "O"], 1, "'O' can't follow 'B-LOC' in scheme biluo: write 'U-LOC'"),
        (Scheme.BILUO, ["O", "O", "B-LOC"], 2, "'B-LOC' can't end a sentence in scheme biluo: write 'U-LOC'"),
    ],
)
def test_corrected_labels_must_be_a_valid_sequence(
    harness: QueueHarness, scheme: Scheme, labels: list[str], word: int, text: str
) -> None:
    harness.write(make_review_output(make_assessment("1")))
    with pytest.raises(InvalidInput) as caught:
        check_decision(harness.get_item("1"), make_decision(labels=labels), label_map=build_label_map(scheme))
    assert (caught.value.field, caught.value.word) == ("labels", word)
    assert text in caught.value.problem


def test_what_the_annotator_gave_may_break_the_scheme(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("1", labels=("I-PER", "O", "O"))))
    item, label_map = harness.get_item("1"), build_label_map()
    assert check_decision(item, make_decision(labels=["I-PER", "O", "B-LOC"]), label_map=label_map).labels is not None
    with pytest.raises(InvalidInput, match="'I-LOC' can't follow 'I-PER'"):
        check_decision(item, make_decision(labels=["I-PER", "I-LOC", "O"]), label_map=label_map)


def test_a_correction_may_have_a_type_of_the_label_set_that_the_model_does_not_know(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("1", labels=("O", "B-PER", "O"))))
    item, label_map = harness.get_item("1"), build_label_map(label_set=("PER", "DRUG"))
    corrected = make_decision(labels=["B-DRUG", "B-PER", "O"])
    assert check_decision(item, corrected, label_map=label_map).labels is not None


def test_corrected_labels_are_in_the_label_set(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("1", labels=("B-LOC", "B-PER", "O"))))
    item, label_map = harness.get_item("1"), build_label_map(label_set=("PER",))
    with pytest.raises(InvalidInput, match="label 'B-LOC' is not in the label set") as caught:
        check_decision(item, make_decision(labels=["B-LOC", "B-LOC", "O"]), label_map=label_map)
    assert (caught.value.field, caught.value.word, caught.value.token) == ("labels", 1, item.tokens[1])
    with pytest.raises(InvalidInput, match="not a label of default: use its own, of the types PER"):
        check_decision(item, make_decision(labels=["B-LOC", "B-ORG", "O"]), label_map=label_map)
    # The given label of another word may be older than the label set.
    assert check_decision(item, make_decision(labels=["B-LOC", "O", "O"]), label_map=label_map).labels is not None


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"verdict": "ok"},
        {"verdict": "ok", "labels": ["O", "B-PER", "O"], "words": []},
        {"verdict": "unsure", "note": "who is that?"},
        {"labels": ["O", "O", "O"]},
        {"labels": ["O", "O", "O"], "words": [1]},
        {"words": [0, 2]},
    ],
)
def test_a_decision_gets_its_time_and_what_was_shown(harness: QueueHarness, fields: dict[str, Any]) -> None:
    harness.write(make_review_output(make_assessment("1", annotator="zoe")))
    checked = check_decision(harness.get_item("1"), make_decision(**fields), now=NOW)
    assert checked.decided_at == NOW
    assert checked.shown is not None
    assert checked.shown.labels == ("O", "B-PER", "O")
    assert checked.shown.annotator == "zoe"
    assert len(checked.shown.scores) == 3
    assert [flag.index for flag in checked.shown.doubtful] == [1]


def test_the_service_sets_shown_whatever_the_client_sends(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("1")))
    checked = check_decision(harness.get_item("1"), make_decision(shown={"labels": ["X"], "reason": "control"}))
    assert checked.shown is not None
    assert (checked.shown.reason, checked.shown.labels[0]) == ("flagged", "O")


def test_a_closed_item_accepts_no_decision_but_a_withdrawal(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("1", reason="update", update=True)))
    with pytest.raises(InvalidInput, match="closed"):
        check_decision(harness.get_item("1"), make_decision())
    assert check_decision(harness.get_item("1"), make_decision(withdrawn=True)).withdrawn


def test_a_time_without_zone_is_utc(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("1")))
    checked = check_decision(harness.get_item("1"), make_decision(decided_at="2024-05-31T12:00:00"))
    assert checked.decided_at == NOW
