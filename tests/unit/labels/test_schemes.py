from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput, UnknownLabelError
from service.labels import (
    Scheme,
    Span,
    convert_scheme,
    get_entity_type,
    is_valid_end,
    is_valid_sequence,
    is_valid_start,
    is_valid_transition,
    labels_from_spans,
    parse_spans,
)
from tests.unit.labels.strategies import span_layouts

IOB1, IOB2, BILUO, IO = Scheme.IOB1, Scheme.IOB2, Scheme.BILUO, Scheme.IO
TYPES = ("PER", "PRODUCT-NAME", "E-MAIL", "I-95", "o")
EXACT = [IOB1, IOB2, BILUO]  # the schemes that lose nothing


def split(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize(
    ("scheme", "labels", "expected"),
    [
        (IOB2, "B-PER I-PER O B-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        (IOB2, "B-PER B-PER I-PER", [(0, 1, "PER"), (1, 3, "PER")]),
        (IOB2, "O I-PER I-PER", [(1, 3, "PER")]),
        (IOB2, "B-PER I-LOC I-LOC", [(0, 1, "PER"), (1, 3, "LOC")]),
        (IOB1, "I-PER I-PER B-PER O I-LOC I-PER", [(0, 2, "PER"), (2, 3, "PER"), (4, 5, "LOC"), (5, 6, "PER")]),
        (IOB1, "B-PER I-PER O", [(0, 2, "PER")]),
        (BILUO, "B-PER I-PER L-PER U-PER O", [(0, 3, "PER"), (3, 4, "PER")]),
        (BILUO, "B-PER E-PER S-LOC", [(0, 2, "PER"), (2, 3, "LOC")]),
        (BILUO, "B-PER M-PER E-PER W-PER", [(0, 3, "PER"), (3, 4, "PER")]),
        (BILUO, "L-PER I-PER O", [(0, 1, "PER"), (1, 2, "PER")]),
        (BILUO, "B-PER O B-PER U-PER", [(0, 1, "PER"), (2, 3, "PER"), (3, 4, "PER")]),
        (BILUO, "B-PER L-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),
        (IO, "PER PER O LOC PER", [(0, 2, "PER"), (3, 4, "LOC"), (4, 5, "PER")]),
        (IO, "I-PER PER i-PER", [(0, 3, "PER")]),
        (IO, "E-MAIL B-CELL", [(0, 1, "E-MAIL"), (1, 2, "B-CELL")]),
        (IOB2, "B-PRODUCT-NAME I-PRODUCT-NAME", [(0, 2, "PRODUCT-NAME")]),
        (IOB2, "b-per i-per I-PER", [(0, 2, "per"), (2, 3, "PER")]),
        (BILUO, "b-x i-x e-x s-x u-x l-x", [(0, 3, "x"), (3, 4, "x"), (4, 5, "x"), (5, 6, "x")]),
        (IOB2, "", []),
    ],
)
def test_spans_are_read_leniently(scheme: Scheme, labels: str, expected: list[tuple[int, int, str]]) -> None:
    assert parse_spans(split(labels), scheme) == [Span(*span) for span in expected]


@pytest.mark.parametrize(
    ("scheme", "labels"),
    [(IOB2, ["O", "PER"]), (IOB2, ["O", "o"]), (IOB1, ["O", "L-PER"]), (BILUO, ["O", "X-PER"]), (IOB2, ["O", "B-"]),
     (IOB2, ["O", ""]), (IO, ["O", ""]), (IOB2, ["O", "B_PER"]), (IOB2, ["O", "B-O"]), (IO, ["O", "I-O"])],
)  # fmt: skip
def test_a_label_that_the_scheme_does_not_have_is_named_with_its_word(scheme: Scheme, labels: list[str]) -> None:
    with pytest.raises(UnknownLabelError) as caught:
        parse_spans(labels, scheme)
    assert caught.value.word == 1
    assert repr(labels[1]) in str(caught.value)


@pytest.mark.parametrize("outside", ["o", "0", "OUT", ""])
def test_another_spelling_of_outside_comes_with_the_mapping_that_helps(outside: str) -> None:
    with pytest.raises(UnknownLabelError, match=f'{{"{outside}": "O"}}'):
        parse_spans([outside], IOB2)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (IOB1, "I-PER I-PER B-PER I-LOC O I-LOC"),
        (IOB2, "B-PER I-PER B-PER B-LOC O B-LOC"),
        (BILUO, "B-PER L-PER U-PER U-LOC O U-LOC"),
        (IO, "PER PER PER LOC O LOC"),
    ],
)
def test_labels_from_spans(scheme: Scheme, expected: str) -> None:
    entities = [Span(5, 6, "LOC"), Span(0, 2, "PER"), Span(2, 3, "PER"), Span(3, 4, "LOC")]
    assert labels_from_spans(entities, 6, scheme) == split(expected)


@pytest.mark.parametrize(
    "entities",
    [[(0, 0, "A")], [(2, 1, "A")], [(-1, 1, "A")], [(3, 5, "A")], [(0, 2, "A"), (1, 3, "B")], [(0, 2, "A")] * 2,
     [(0, 1, "")], [(0, 1, "O")]],
)  # fmt: skip
def test_spans_that_make_no_labels_are_refused(entities: list[tuple[int, int, str]]) -> None:
    with pytest.raises(InvalidInput, match="span"):
        labels_from_spans([Span(*span) for span in entities], 4, IOB2)


@given(span_layouts(TYPES), st.sampled_from(EXACT))
@settings(deadline=None, max_examples=100)
def test_spans_and_labels_are_inverse(sentence: tuple[list[Span], int], scheme: Scheme) -> None:
    entities, n = sentence
    labels = labels_from_spans(entities, n, scheme)
    assert len(labels) == n
    assert parse_spans(labels, scheme) == entities
    assert is_valid_sequence(labels, scheme)


@given(span_layouts(TYPES))
@settings(deadline=None, max_examples=100)
def test_io_keeps_the_type_of_each_word_and_joins_what_touches(sentence: tuple[list[Span], int]) -> None:
    entities, n = sentence
    labels = labels_from_spans(entities, n, IO)
    types = {word: span.type for span in entities for word in range(span.start, span.end)}
    read = parse_spans(labels, IO)
    assert {word: span.type for span in read for word in range(span.start, span.end)} == types
    assert all(a.end < b.start or a.type != b.type for a, b in pairwise(read))


@given(span_layouts(TYPES), st.sampled_from(EXACT), st.sampled_from(EXACT))
@settings(deadline=None, max_examples=100)
def test_conversion_comes_back(sentence: tuple[list[Span], int], source: Scheme, target: Scheme) -> None:
    labels = labels_from_spans(*sentence, source)
    there = convert_scheme(labels, source, target)
    assert is_valid_sequence(there, target)
    assert convert_scheme(there, target, source) == labels


@given(
    st.sampled_from(list(Scheme)).flatmap(
        lambda scheme: st.tuples(
            st.just(scheme),
            st.lists(
                st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"] + ["L-A", "U-B", "e-B"] * (scheme is BILUO)),
                max_size=8,
            ),
        )
    ),
    st.sampled_from(EXACT),
)
@settings(deadline=None, max_examples=100)
def test_any_sequence_converts_to_a_valid_one_of_the_same_entities(
    source: tuple[Scheme, list[str]], target: Scheme
) -> None:
    scheme, labels = source
    converted = convert_scheme(labels, scheme, target)
    assert is_valid_sequence(converted, target)
    assert parse_spans(converted, target) == parse_spans(labels, scheme)


def test_iob1_and_iob2_are_read_alike() -> None:
    alphabet = ["O", "B-A", "I-A", "B-B", "I-B"]
    for labels in product(alphabet, repeat=4):
        assert parse_spans(labels, IOB1) == parse_spans(labels, IOB2)


@pytest.mark.parametrize("scheme", list(Scheme))
def test_a_sequence_is_valid_exactly_if_writing_its_spans_gives_it_back(scheme: Scheme) -> None:
    prefixes = {IOB1: "BI", IOB2: "BI", BILUO: "BILU", IO: ""}[scheme]
    alphabet = ["O"] + ([f"{p}-{t}" for t in "AB" for p in prefixes] or ["A", "B"])
    for n in range(4):
        for labels in product(alphabet, repeat=n):
            assert is_valid_sequence(labels, scheme) == (convert_scheme(labels, scheme, scheme) == list(labels)), labels


@pytest.mark.parametrize(
    ("scheme", "previous", "following", "valid"),
    [
        (IOB2, None, "I-A", False), (IOB2, "O", "I-A", False), (IOB2, "B-A", "I-A", True), (IOB2, "B-B", "I-A", False),
        (IOB2, "I-A", None, True), (IOB1, None, "I-A", True), (IOB1, "O", "B-A", False), (IOB1, "I-A", "B-A", True),
        (IOB1, "B-A", "B-A", True), (IOB1, "I-B", "B-A", False), (BILUO, "B-A", None, False), (BILUO, "B-A", "O", False),
        (BILUO, "B-A", "L-A", True), (BILUO, "B-A", "E-A", True), (BILUO, "B-A", "L-B", False),
        (BILUO, "U-A", "L-A", False), (BILUO, "L-A", "U-A", True), (BILUO, None, "S-A", True), (BILUO, None, "L-A", False),
        (IO, "A", "B", True), (IO, None, None, True), (BILUO, None, None, True),
    ],
)  # fmt: skip
def test_transitions(scheme: Scheme, previous: str | None, following: str | None, valid: bool) -> None:
    assert is_valid_transition(previous, following, scheme) is valid
    if previous is None and following is not None:
        assert is_valid_start(following, scheme) is valid
    if following is None and previous is not None:
        assert is_valid_end(previous, scheme) is valid


def test_entity_type() -> None:
    assert [get_entity_type(label) for label in ["B-PER", "I-PRODUCT-NAME", "O", "PER", "u-x", "B-"]] == [
        "PER", "PRODUCT-NAME", "O", "PER", "x", "B-",
    ]  # fmt: skip
    assert get_entity_type("E-MAIL") == "MAIL"
    assert get_entity_type("E-MAIL", IO) == "E-MAIL"
