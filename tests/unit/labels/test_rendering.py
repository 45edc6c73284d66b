from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.labels import DatasetLabelWriter, LabelMap, Scheme, Span, convert_scheme, is_valid_sequence, parse_spans

TYPES = ("PER", "LOC", "ORG")
MODEL = ("O", *(f"{prefix}-{name}" for name in TYPES for prefix in "BI"))


def build_map(scheme: Scheme = Scheme.IOB2, mapping: dict[str, str] | None = None) -> LabelMap:
    return LabelMap.build(
        MODEL, model_scheme=Scheme.IOB2, dataset_labels=None, dataset_scheme=scheme, mapping=mapping or {}
    )


def build_writer(scheme: Scheme = Scheme.IOB2, mapping: dict[str, str] | None = None) -> DatasetLabelWriter:
    return build_map(scheme, mapping).build_writer()


def test_a_class_has_the_datasets_name_where_the_map_gives_one() -> None:
    writer = build_writer(mapping={"PERSON": "PER", "PLACE": "LOC", "MISC": "O"})
    assert writer.label_by_class == ("O", "B-PERSON", "I-PERSON", "B-PLACE", "I-PLACE", "B-ORG", "I-ORG")
    assert writer.types == ("PERSON", "PLACE", "ORG")
    assert not writer.is_identity
    assert build_writer().is_identity
    assert build_writer(mapping={"MISC": "O"}).is_identity
    assert build_writer(Scheme.BILUO).label_by_class is None


@pytest.mark.parametrize(
    "mapping",
    [
        {"B-PERSON": "B-PER", "I-PERSON": "I-PER"},
        {"PERSON": "PER"},
    ],
)
def test_a_mapped_full_label_gives_the_type_its_name_too(mapping: dict[str, str]) -> None:
    assert build_writer(mapping=mapping).label_by_class == ("O", "B-PERSON", "I-PERSON", *MODEL[3:])


def test_labels_that_no_scheme_spells_come_back_as_they_are() -> None:
    writer = build_writer(mapping={"PER_B": "B-PER", "PER_I": "I-PER", "7": "B-LOC"})
    assert writer.label_by_class == ("O", "PER_B", "PER_I", "7", "I-LOC", "B-ORG", "I-ORG")


def test_the_models_own_name_stays_where_the_sentence_uses_it() -> None:
    writer = build_writer(mapping={"PERSON": "PER"})
    assert writer.is_direct(("B-PERSON", "O"))
    assert not writer.is_direct(("B-PER", "O"))
    assert writer.render(["B-PER", "I-PER"], ["B-PER", "O"]) == ["B-PER", "I-PER"]
    assert writer.render(["B-PER", "I-PER"], ["B-PERSON", "O"]) == ["B-PERSON", "I-PERSON"]


def test_names_that_change_places_do_not_come_back_twice() -> None:
    writer = build_writer(mapping={"PER": "LOC", "LOC": "PER"})
    assert writer.resolve_type(Span(0, 1, "LOC"), ["B-LOC"]) == "PER"
    assert writer.label_by_class == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER", "B-ORG", "I-ORG")


def test_biluo_is_spelt_as_the_sentence_spells_it() -> None:
    writer = build_writer(Scheme.BILUO)
    path = ["B-PER", "I-PER", "I-PER", "B-LOC"]
    assert writer.render(path, ["O"] * 4) == ["B-PER", "I-PER", "L-PER", "U-LOC"]
    assert writer.render(path, ["S-PER", "O", "O", "O"]) == ["B-PER", "I-PER", "E-PER", "S-LOC"]
    assert writer.render(path, ["B-PER", "M-PER", "E-PER", "W-ORG"]) == ["B-PER", "M-PER", "E-PER", "W-LOC"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(MODEL), min_size=1, max_size=8), st.sampled_from(Scheme))
def test_rewritten_labels_are_valid_and_have_the_same_entities(path: list[str], scheme: Scheme) -> None:
    labels = build_map(scheme, {"PERSON": "PER", "PLACE": "LOC"})
    judged = convert_scheme(path, Scheme.IOB2, labels.scheme)
    rendered = labels.build_writer().render(judged, ["O"] * len(path))
    assert is_valid_sequence(rendered, scheme)
    assert all(map(labels.accepts, rendered))
    back = {"PERSON": "PER", "PLACE": "LOC"}
    again = [Span(a, b, back.get(name, name)) for a, b, name in parse_spans(rendered, scheme)]
    assert again == parse_spans(judged, labels.scheme)


def test_labels_that_the_dataset_may_have() -> None:
    labels = build_map(mapping={"PERSON": "PER"})
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
