from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.labels import DatasetLabelWriter, LabelMap, Scheme, Span, convert_scheme, is_valid_sequence, parse_spans

TYPES = ("PER", "LOC", "ORG")
MODEL = ("O", *(f"{prefix}-{name}" for name in TYPES for prefix in "BI"))


def mapped(scheme: Scheme = Scheme.IOB2, mapping: dict[str, str] | None = None) -> LabelMap:
    return LabelMap.build(
        MODEL, model_scheme=Scheme.IOB2, dataset_labels=None, dataset_scheme=scheme, mapping=mapping or {}
    )


def own(scheme: Scheme = Scheme.IOB2, mapping: dict[str, str] | None = None) -> DatasetLabelWriter:
    return mapped(scheme, mapping).build_writer()


def test_a_class_has_the_datasets_name_where_the_map_gives_one() -> None:
    found = own(mapping={"PERSON": "PER", "PLACE": "LOC", "MISC": "O"})
    assert found.label_by_class == ("O", "B-PERSON", "I-PERSON", "B-PLACE", "I-PLACE", "B-ORG", "I-ORG")
    assert found.types == ("PERSON", "PLACE", "ORG")
    assert not found.is_identity
    assert own().is_identity
    assert own(mapping={"MISC": "O"}).is_identity
    assert own(Scheme.BILUO).label_by_class is None


@pytest.mark.parametrize(
    "mapping",
    [
        {"B-PERSON": "B-PER", "I-PERSON": "I-PER"},
        {"PERSON": "PER"},
    ],
)
def test_a_mapped_full_label_gives_the_type_its_name_too(mapping: dict[str, str]) -> None:
    assert own(mapping=mapping).label_by_class == ("O", "B-PERSON", "I-PERSON", *MODEL[3:])


def test_labels_that_no_scheme_spells_come_back_as_they_are() -> None:
    found = own(mapping={"PER_B": "B-PER", "PER_I": "I-PER", "7": "B-LOC"})
    assert found.label_by_class == ("O", "PER_B", "PER_I", "7", "I-LOC", "B-ORG", "I-ORG")


def test_the_models_own_name_stays_where_the_sentence_uses_it() -> None:
    found = own(mapping={"PERSON": "PER"})
    assert found.is_direct(("B-PERSON", "O"))
    assert not found.is_direct(("B-PER", "O"))
    assert found.render(["B-PER", "I-PER"], ["B-PER", "O"]) == ["B-PER", "I-PER"]
    assert found.render(["B-PER", "I-PER"], ["B-PERSON", "O"]) == ["B-PERSON", "I-PERSON"]


def test_names_that_change_places_do_not_come_back_twice() -> None:
    found = own(mapping={"PER": "LOC", "LOC": "PER"})
    assert found.resolve_type(Span(0, 1, "LOC"), ["B-LOC"]) == "PER"
    assert found.label_by_class == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER", "B-ORG", "I-ORG")


def test_biluo_is_spelt_as_the_sentence_spells_it() -> None:
    found = own(Scheme.BILUO)
    path = ["B-PER", "I-PER", "I-PER", "B-LOC"]
    assert found.render(path, ["O"] * 4) == ["B-PER", "I-PER", "L-PER", "U-LOC"]
    assert found.render(path, ["S-PER", "O", "O", "O"]) == ["B-PER", "I-PER", "E-PER", "S-LOC"]
    assert found.render(path, ["B-PER", "M-PER", "E-PER", "W-ORG"]) == ["B-PER", "M-PER", "E-PER", "W-LOC"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(MODEL), min_size=1, max_size=8), st.sampled_from(Scheme))
def test_what_is_rewritten_is_valid_and_the_same_entities(path: list[str], scheme: Scheme) -> None:
    labels = mapped(scheme, {"PERSON": "PER", "PLACE": "LOC"})
    judged = convert_scheme(path, Scheme.IOB2, labels.scheme)
    found = labels.build_writer().render(judged, ["O"] * len(path))
    assert is_valid_sequence(found, scheme)
    assert all(map(labels.accepts, found))
    back = {"PERSON": "PER", "PLACE": "LOC"}
    again = [Span(a, b, back.get(name, name)) for a, b, name in parse_spans(found, scheme)]
    assert again == parse_spans(judged, labels.scheme)


def test_labels_that_the_dataset_may_have() -> None:
    labels = mapped(mapping={"PERSON": "PER"})
    assert all(map(labels.accepts, ("O", "B-PERSON", "I-PER", "B-ORG")))
    assert not any(map(labels.accepts, ("B-DATE", "PERSON", "o", "")))
    lenient = LabelMap.build(
        MODEL,
        model_scheme=Scheme.IOB2,
        dataset_labels=None,
        dataset_scheme=Scheme.IOB2,
        unmapped="unscored",
    )
    assert lenient.accepts("B-DATE")
    assert not lenient.accepts("0")
