from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput, UnknownLabelError
from service.labels import (
    UNSCORED,
    LabelMap,
    Scheme,
    Span,
    UnmappedPolicy,
    convert_scheme,
    labels_from_spans,
    parse_spans,
)
from tests.unit.labels.strategies import span_layouts

if TYPE_CHECKING:
    from collections.abc import Sequence

IOB1, IOB2, BILUO, IO = Scheme.IOB1, Scheme.IOB2, Scheme.BILUO, Scheme.IO
NINE = ["O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
TYPES = ["O", "PER", "ORG", "LOC"]
BIOES = ["O", *(f"{p}-{t}" for t in ["PER", "LOC"] for p in "BIES")]


def build(
    classes: Sequence[str] = NINE,
    *,
    model: Scheme = IOB2,
    labels: list[str] | None = None,
    dataset: Scheme = IOB2,
    mapping: dict[str, str] | None = None,
    unmapped: UnmappedPolicy = "reject",
    label_set: Sequence[str] | None = None,
) -> LabelMap:
    return LabelMap.build(
        classes,
        model_scheme=model,
        dataset_labels=labels,
        dataset_scheme=dataset,
        mapping=mapping or {},
        unmapped=unmapped,
        label_set=label_set,
    )


def names(label_map: LabelMap, text: str) -> list[str]:
    """The judged classes of labels by name, "?" where unscored."""
    return ["?" if k == UNSCORED else label_map.classes[k] for k in label_map.map(text.split()).ids]


def test_the_same_labels_are_the_classes_as_they_are() -> None:
    label_map = build()
    assert (label_map.classes, label_map.merge, label_map.scheme) == (tuple(NINE), None, IOB2)
    mapped = label_map.map(NINE)
    assert mapped.ids == list(range(9))
    assert mapped.labels == NINE


def test_labels_that_break_the_scheme_are_judged_as_they_were_given() -> None:
    assert names(build(), "O I-PER I-LOC") == ["O", "I-PER", "I-LOC"]


def test_no_words() -> None:
    assert build().map([]).ids == []
    assert build(dataset=BILUO).map([]).ids == []


def test_lower_case_prefixes() -> None:
    assert names(build(), "b-PER i-PER O") == ["B-PER", "I-PER", "O"]


@pytest.mark.parametrize(
    ("dataset", "labels"),
    [
        (IOB1, "I-PER I-PER B-PER O I-LOC"),
        (IOB2, "B-PER I-PER B-PER O B-LOC"),
        (BILUO, "B-PER L-PER U-PER O U-LOC"),
        (BILUO, "B-PER E-PER S-PER O s-LOC"),
    ],
)
@pytest.mark.parametrize(
    ("model", "classes", "expected"),
    [
        (IOB2, NINE, "B-PER I-PER B-PER O B-LOC"),
        (IOB1, NINE, "I-PER I-PER B-PER O I-LOC"),
        (BILUO, BIOES, "B-PER E-PER S-PER O S-LOC"),
    ],
)
def test_schemes_are_converted_to_the_models(
    dataset: Scheme, labels: str, model: Scheme, classes: list[str], expected: str
) -> None:
    label_map = build(classes, model=model, dataset=dataset)
    assert label_map.merge is None
    assert label_map.scheme is model
    assert names(label_map, labels) == expected.split()
    assert label_map.map(labels.split()).labels == expected.split()


def test_a_dataset_without_prefixes_is_judged_by_types() -> None:
    label_map = build(dataset=IO)
    assert label_map.classes == ("O", "MISC", "PER", "ORG", "LOC")
    assert label_map.merge == (0, 1, 1, 2, 2, 3, 3, 4, 4)
    assert label_map.scheme is IO
    assert names(label_map, "PER I-PER O LOC") == ["PER", "PER", "O", "LOC"]


def test_data_read_as_io_may_turn_out_to_be_iob1() -> None:
    assert names(build(dataset=IO, mapping={"PERSON": "PER"}), "I-LOC B-LOC B-PERSON") == ["LOC", "LOC", "PER"]


def test_a_type_that_looks_prefixed_is_itself_in_io() -> None:
    label_map = build(["O", "E-MAIL", "MAIL", "B-CELL", "CELL"], model=IO, dataset=IO)
    assert names(label_map, "E-MAIL MAIL B-CELL CELL I-E-MAIL") == ["E-MAIL", "MAIL", "B-CELL", "CELL", "E-MAIL"]
    with pytest.raises(UnknownLabelError, match="'S-MAIL'"):
        label_map.map(["S-MAIL"])


@pytest.mark.parametrize("classes", [TYPES, ["PER", "ORG", "LOC", "O"], ["O", "I-PER", "I-ORG", "I-LOC"]])
@pytest.mark.parametrize(
    ("dataset", "labels"),
    [
        (IOB2, "B-PER I-PER O B-LOC"),
        (IOB1, "I-PER B-PER O I-LOC"),
        (BILUO, "B-PER L-PER O U-LOC"),
        (IO, "PER PER O LOC"),
    ],
)
def test_a_model_without_prefixes_keeps_its_classes(classes: list[str], dataset: Scheme, labels: str) -> None:
    label_map = build(classes, model=IO, dataset=dataset)
    assert (label_map.classes, label_map.merge, label_map.scheme) == (tuple(classes), None, IO)
    assert [name.removeprefix("I-") for name in names(label_map, labels)] == ["PER", "PER", "O", "LOC"]


def test_a_model_that_lacks_a_prefix_is_judged_by_types() -> None:
    classes = ["B-LOC", "B-MISC", "B-ORG", "I-LOC", "I-MISC", "I-ORG", "I-PER", "O"]
    label_map = build(classes, model=IOB1)
    assert label_map.classes == ("O", "LOC", "MISC", "ORG", "PER")
    assert names(label_map, "B-PER B-PER O") == ["PER", "PER", "O"]


def test_unless_the_dataset_never_uses_that_prefix() -> None:
    classes = ["B-LOC", "I-LOC", "I-PER", "O"]
    label_map = build(classes, model=IOB1, dataset=IOB1, labels=["O", "I-PER", "I-LOC", "B-LOC"])
    assert label_map.merge is None
    assert names(label_map, "I-PER I-LOC B-LOC O") == ["I-PER", "I-LOC", "B-LOC", "O"]
    with pytest.raises(UnknownLabelError, match=r"word 1, .*'B-PER'.*prefix"):
        label_map.map(["I-PER", "B-PER"])


def test_a_dataset_with_few_of_the_labels_is_no_reason_to_merge() -> None:
    assert build(labels=["O", "B-PER"]).merge is None
    assert build(labels=["O", "U-PER"], dataset=BILUO).merge is None


def test_a_dataset_label_the_model_has_under_other_prefixes_only_merges() -> None:
    label_map = build(["O", "B-PER", "I-PER", "B-LANG"], labels=["O", "B-LANG", "I-LANG"])
    assert names(label_map, "B-LANG I-LANG O") == ["LANG", "LANG", "O"]


def test_types_are_renamed_and_finer_ones_joined() -> None:
    mapping = {"PERSON": "PER", "CITY": "LOC", "COUNTRY": "LOC", "DATE": "O"}
    label_map = build(mapping=mapping)
    assert label_map.merge is None
    assert names(label_map, "B-PERSON I-PERSON B-CITY B-COUNTRY I-COUNTRY B-DATE I-DATE B-LOC") == (
        ["B-PER", "I-PER", "B-LOC", "B-LOC", "I-LOC", "O", "O", "B-LOC"]
    )


@pytest.mark.parametrize("model", [IOB1, IOB2, BILUO])
def test_touching_entities_of_finer_types_stay_apart(model: Scheme) -> None:
    classes = BIOES if model is BILUO else NINE
    label_map = build(classes, model=model, dataset=IOB1, mapping={"CITY": "LOC", "STATE": "LOC"})
    mapped = label_map.map(["I-CITY", "I-STATE", "I-STATE", "B-STATE", "I-LOC"])
    assert parse_spans(mapped.labels, model) == [
        Span(0, 1, "LOC"),
        Span(1, 3, "LOC"),
        Span(3, 4, "LOC"),
        Span(4, 5, "LOC"),
    ]


def test_full_labels_are_mapped() -> None:
    label_map = build(mapping={"0": "O", "1": "B-PER", "2": "I-PER", "PER_B": "B-PER", "B-PERSON": "PER"})
    assert names(label_map, "0 1 2 PER_B b-PERSON") == ["O", "B-PER", "I-PER", "B-PER", "B-PER"]
    with pytest.raises(UnknownLabelError, match="'I-PERSON'"):
        label_map.map(["I-PERSON"])


@pytest.mark.parametrize("dataset", [IOB2, BILUO])
def test_a_mapped_full_label_and_a_mapped_type_are_one_entity(dataset: Scheme) -> None:
    label_map = build(BIOES, model=BILUO, dataset=dataset, mapping={"B-PERSON": "B-PER", "PERSON": "PER"})
    end = "E" if dataset is BILUO else "I"
    assert names(label_map, f"B-PERSON I-PERSON {end}-PERSON O") == ["B-PER", "I-PER", "E-PER", "O"]


def test_a_full_label_wins_over_a_type_and_a_mapping_over_the_models_own_name() -> None:
    label_map = build(mapping={"B-X": "B-LOC", "X": "PER", "ORG": "MISC"})
    assert names(label_map, "B-X I-X B-ORG") == ["B-LOC", "I-PER", "B-MISC"]


def test_a_models_own_outside_class_may_be_called_anything() -> None:
    label_map = build(["LABEL_0", "LABEL_1"], model=IO, dataset=IOB2, mapping={"O": "LABEL_0", "PER": "LABEL_1"})
    assert names(label_map, "O B-PER I-PER") == ["LABEL_0", "LABEL_1", "LABEL_1"]
    assert names(build(["0", ".", "-"], model=IO, dataset=IO), "0 - .") == ["0", "-", "."]


def test_a_model_without_outside_does_not_know_it() -> None:
    label_map = build(["NOUN", "VERB"], model=IO, dataset=IO)
    assert names(label_map, "VERB NOUN") == ["VERB", "NOUN"]
    with pytest.raises(UnknownLabelError, match="'O'"):
        label_map.map(["NOUN", "O"])
    with pytest.raises(InvalidInput, match='"PUNCT" is mapped to "O"'):
        build(["NOUN", "VERB"], model=IO, dataset=IO, mapping={"PUNCT": "O"})


@pytest.mark.parametrize("value", ["PERS", "X-PER", "B-PERS", "", "U-PER"])
def test_a_mapping_onto_nothing_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match=f'`label_map`.*"{value}".*PER, ORG') as caught:
        build(mapping={"PERSON": value})
    assert caught.value.field == "label_map"


@pytest.mark.parametrize(
    ("label", "dataset", "hint"),
    [
        ("B-PERSON", IOB2, '{"PERSON": "PER"}'),
        ("B-per", IOB2, '{"per": "PER"}'),
        ("B-MSIC", IOB2, '{"MSIC": "MISC"}'),
        ("B-DATE", IOB2, "unscored"),
        ("PER", IOB2, "scheme io"),
        ("B_PER", IOB2, '{"B_PER": "B-PER"}'),
        ("o", IOB2, '{"o": "O"}'),
        ("OTHER", IOB2, '{"OTHER": "O"}'),
        ("o", IO, '{"o": "O"}'),
        ("Person", IO, '{"Person": "PER"}'),
    ],
)
def test_an_unknown_label_is_named_with_what_helps(label: str, dataset: Scheme, hint: str) -> None:
    known = "O, B-MISC, I-MISC, B-PER"
    with pytest.raises(UnknownLabelError) as caught:
        build(dataset=dataset).map(["O", label], sentence="a/1")
    message = str(caught.value)
    assert caught.value.word == 1
    assert "sentence a/1, word 1" in message
    assert repr(label) in message
    assert hint in message
    assert known in message
    with pytest.raises(UnknownLabelError, match=repr(label)):
        build(dataset=dataset, labels=["O", label])


@pytest.mark.parametrize(
    ("label", "general", "settings", "options"),
    [
        (
            "B-PERSON",
            'map it: {"PERSON": "PER"}. Known',
            'map it: `labelwatch datasets set news label_map.PERSON=PER`, or {"label_map": {"PERSON": "PER"}} in its',
            "map it: --map PERSON=PER. Known",
        ),
        ("none", '{"none": "O"}', "set news label_map.none=O`", "--map none=O"),
        ("B-it's", '{"it\'s": "TYPE"}', "set news 'label_map.it'\"'\"'s=TYPE'`", "--map 'it'\"'\"'s=TYPE'"),
        (
            "B-DATE",
            'where a type of the model means the same: {"DATE": "TYPE"}. Or let',
            "(`labelwatch datasets set news unmapped=unscored`)",
            "(--unmapped",
        ),
        ("XYZ", "scheme io", "(`labelwatch datasets set news scheme=io`)", "(--scheme io)"),
    ],
)
def test_the_remedy_names_settings_or_options(label: str, general: str, settings: str, options: str) -> None:
    for label_map, advice in ((build(), general), (replace(build(), dataset="news"), settings)):
        with pytest.raises(UnknownLabelError) as caught:
            label_map.map(["O", label], sentence=3)
        assert advice in str(caught.value)
        assert options in caught.value.cli_message
        assert caught.value.cli_message.startswith("sentence 3, word 1, `labels`: label ")
        assert "label_map" not in caught.value.cli_message


def test_the_first_advice_for_a_label_of_another_kind_is_another_model() -> None:
    with pytest.raises(UnknownLabelError) as caught:
        replace(build(), dataset="news").map(["B-DRUG"])
    for text in (str(caught.value), caught.value.cli_message):
        ways = ["`labelwatch train FILE --name NAME`", "`labelwatch model add DIR`", "map "]
        positions = [text.index(way) for way in ways]
        assert positions == sorted(positions)
        assert "=O" not in text
    assert "then `labelwatch datasets set news model=NAME`" in str(caught.value)
    assert "--name NAME`, then --model NAME)" in caught.value.cli_message


def test_a_label_as_long_as_a_novel_is_not_repeated() -> None:
    with pytest.raises(UnknownLabelError) as caught:
        build().map(["B-" + "X" * 1_000_000])
    assert len(str(caught.value)) < 400
    assert "of 1000002 characters has no class" in str(caught.value)


def test_a_long_list_of_labels_is_cut() -> None:
    classes = ["O", *(f"{p}-T{i}" for i in range(60) for p in "BI")]
    with pytest.raises(UnknownLabelError, match="and 81 more"):
        build(classes).map(["B-X"])


@pytest.mark.parametrize("dataset", [IOB2, IOB1, BILUO])
def test_unmapped_labels_may_be_unscored_and_keep_their_type(dataset: Scheme) -> None:
    label_map = build(dataset=dataset, unmapped="unscored", labels=["O", "B-DATE"])
    labels = convert_scheme(["B-DATE", "I-DATE", "B-PER", "O"], IOB2, dataset)
    mapped = label_map.map(labels)
    assert mapped.ids == [UNSCORED, UNSCORED, NINE.index("B-PER"), 0]
    assert mapped.labels == ["B-DATE", "I-DATE", "B-PER", "O"]


def test_unscored_in_merged_classes_and_for_labels_that_cannot_be_read() -> None:
    mapped = build(dataset=IO, unmapped="unscored").map(["DATE", "PER", "O"])
    assert (mapped.ids, mapped.labels) == ([UNSCORED, 2, 0], ["DATE", "PER", "O"])
    mapped = build(unmapped="unscored").map(["###", "B-PER", "B-O"])
    assert (mapped.ids, mapped.labels) == ([UNSCORED, 3, UNSCORED], ["O", "B-PER", "O"])


@pytest.mark.parametrize("outside", ["o", "0", "none", ""])
def test_a_misspelt_outside_is_an_error_even_where_labels_may_be_unscored(outside: str) -> None:
    with pytest.raises(UnknownLabelError, match=f'{{"{outside}": "O"}}'):
        build(unmapped="unscored").map([outside])
    with pytest.raises(UnknownLabelError, match=f'{{"{outside}": "O"}}'):
        build(unmapped="unscored", labels=[outside])
    assert names(build(mapping={outside: "O"}), outside or "O") == ["O"]


@pytest.mark.parametrize(
    ("classes", "scheme", "problem"),
    [
        ([], IOB2, "no classes"),
        (["O", "PER"], IOB2, "'PER'"),
        (["O", "B-PER", "b-PER"], IOB2, "'B-PER' and 'b-PER' are the same"),
        (["O", "L-X", "E-X"], BILUO, "are the same"),
        (["O", "PER", "I-PER"], IO, "are the same"),
    ],
)
def test_classes_that_cannot_be_a_models(classes: list[str], scheme: Scheme, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        build(classes, model=scheme)
    assert caught.value.field == "model_classes"


def test_a_label_map_can_be_a_key() -> None:
    assert build() == build()
    assert hash(build()) == hash(build())
    assert build() != build(mapping={"PERSON": "PER"})


@given(span_layouts(("PER", "CITY", "LOC")), st.sampled_from([IOB1, IOB2, BILUO]), st.sampled_from([IOB1, IOB2, BILUO]))
@settings(deadline=None, max_examples=100)
def test_entities_are_the_same_in_any_scheme_on_either_side(
    sentence: tuple[list[Span], int], dataset: Scheme, model: Scheme
) -> None:
    entities, n = sentence
    classes = BIOES if model is BILUO else NINE
    label_map = build(classes, model=model, dataset=dataset, mapping={"CITY": "LOC"})
    mapped = label_map.map(labels_from_spans(entities, n, dataset))
    assert mapped.labels == [label_map.classes[k] for k in mapped.ids]
    renamed = [span._replace(type="LOC" if span.type == "CITY" else span.type) for span in entities]
    assert parse_spans(mapped.labels, model) == renamed


def test_no_label_is_dropped_whatever_the_settings() -> None:
    """Each word gets a class of the right type, or is unscored only where its type has none."""
    options = product([(NINE, IOB2), (NINE, IOB1), (BIOES, BILUO), (TYPES, IO)], [IOB1, IOB2, BILUO, IO])
    entities = [Span(0, 2, "PER"), Span(2, 3, "DATE"), Span(4, 5, "LOC")]
    for (classes, model), dataset in options:
        label_map = build(classes, model=model, dataset=dataset, unmapped="unscored")
        mapped = label_map.map(labels_from_spans(entities, 6, dataset))
        assert [k == UNSCORED for k in mapped.ids] == [False, False, True, False, False, False]
        assert parse_spans(mapped.labels, label_map.scheme) == entities


# -- label sets ---------------------------------------------------------------------------------------------------------


def test_a_label_set_leaves_its_types_and_outside_in_the_order_of_the_model() -> None:
    label_map = build(label_set=["LOC", "PER"])
    assert label_map.classes == ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    assert label_map.merge == (0, -1, -1, 1, 2, -1, -1, 3, 4)
    assert names(label_map, "O B-LOC I-LOC B-PER") == ["O", "B-LOC", "I-LOC", "B-PER"]
    assert label_map.build_writer().types == ("PER", "LOC")


def test_a_label_set_of_all_types_changes_nothing() -> None:
    label_map = build(label_set=["MISC", "PER", "ORG", "LOC"])
    assert replace(label_map, label_set=None) == build()


def test_a_label_set_has_the_datasets_names() -> None:
    label_map = build(mapping={"PERSON": "PER", "FIRM": "ORG"}, label_set=["PERSON", "LOC"])
    assert label_map.classes == ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    assert names(label_map, "B-PERSON I-PERSON B-LOC") == ["B-PER", "I-PER", "B-LOC"]
    assert label_map.build_writer().types == ("PERSON", "LOC")
    for label in ("B-PER", "B-FIRM", "B-ORG"):
        assert not label_map.accepts(label)
        with pytest.raises(UnknownLabelError, match=f"{label!r} is not in the label set"):
            label_map.map([label])


def test_a_label_set_with_bare_types_is_judged_as_types() -> None:
    label_map = build(dataset=IO, label_set=["PER", "LOC"])
    assert label_map.classes == ("O", "PER", "LOC")
    assert label_map.merge == (0, -1, -1, 1, 1, -1, -1, 2, 2)


def test_a_label_of_a_set_may_be_outside_of_any_scheme() -> None:
    label_map = build(mapping={"PER_B": "B-PER", "3": "B-LOC"}, label_set=["PER"])
    assert names(label_map, "PER_B I-PER") == ["B-PER", "I-PER"]
    assert not label_map.accepts("3")


@pytest.mark.parametrize("unmapped", ["reject", "unscored"])
def test_a_label_outside_the_label_set_is_refused_by_name(unmapped: UnmappedPolicy) -> None:
    label_map = replace(build(unmapped=unmapped, label_set=["PER", "LOC"]), dataset="news")
    with pytest.raises(UnknownLabelError) as caught:
        label_map.map(["O", "B-LCO"])
    assert (caught.value.word, caught.value.stage) == (1, "labels")
    assert "label 'B-LCO' is not in the label set of news. Did you mean 'B-LOC'?" in str(caught.value)
    assert "The label set: O, PER, LOC" in str(caught.value)
    assert not label_map.accepts("B-LCO")
    with pytest.raises(UnknownLabelError, match="outside is spelt 'O'"):
        label_map.map(["o"])


def test_a_type_of_the_set_that_the_model_lacks_is_unmapped() -> None:
    with pytest.raises(UnknownLabelError, match="'B-DRUG' has no class in the model"):
        build(label_set=["PER", "DRUG"]).map(["B-DRUG"])
    label_map = build(label_set=["PER", "DRUG"], unmapped="unscored")
    assert names(label_map, "B-DRUG I-DRUG B-PER") == ["?", "?", "B-PER"]
    assert label_map.classes == ("O", "B-PER", "I-PER")


@pytest.mark.parametrize(
    ("label_set", "problem"),
    [(["PER", "B-LOC"], "'B-LOC' has a prefix .* name the type, 'LOC'"), (["O"], "leave it out")],
)
def test_a_label_set_names_types(label_set: list[str], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        build(label_set=label_set)
    assert caught.value.field == "label_set"


def test_a_label_set_without_any_class_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no class for any of these types"):
        build(["NOUN", "VERB"], model=IO, dataset=IO, label_set=["DRUG"])
