from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import read_sentence
from service.errors import InvalidInput
from service.formats.text.alignment import (
    align_spans,
    find_word_offsets,
    get_given_scheme,
    to_text_spans,
)
from service.formats.text.offsets import CHARACTERS, UTF16, OffsetUnit, TextSpan
from service.formats.text.span_values import read_span
from service.formats.text.word_splitter import SPLITTER, CharacterRange, split_words
from service.labels import Scheme, Span, labels_from_spans

TEXT = "Ann Lee left Oslo."


def span(part: str, label: str, text: str = TEXT, *, with_text: bool = True, field: str = "spans.0") -> TextSpan:
    start = text.index(part)
    return TextSpan(start, start + len(part), label, field, part if with_text else None)


def test_spans_become_labels_of_words() -> None:
    aligned = align_spans(TEXT, [span("Oslo", "LOC"), span("Ann Lee", "PER")])
    assert aligned.tokens == ["Ann", "Lee", "left", "Oslo", "."]
    assert aligned.labels == ["B-PER", "I-PER", "O", "B-LOC", "O"]
    assert aligned.meta == {"splitter": SPLITTER, "scheme": "iob2", "text": TEXT, "alignment": "exact"}


def test_schemes_can_be_chosen() -> None:
    assert align_spans(TEXT, [span("Ann Lee", "PER")], scheme=Scheme.BILUO).labels[:2] == ["B-PER", "L-PER"]


@pytest.mark.parametrize(
    ("part", "alignment", "labels"),
    [
        ("Ann Lee", "exact", "B-PER I-PER O O O"),
        ("Ann Lee ", "exact", "B-PER I-PER O O O"),
        (" Lee", "exact", "O B-PER O O O"),
        ("nn", "expanded", "B-PER O O O O"),
        ("Ann L", "expanded", "B-PER I-PER O O O"),
        ("slo.", "expanded", "O O O B-PER I-PER"),
    ],
)
def test_a_word_belongs_to_a_span_if_they_share_a_character(part: str, alignment: str, labels: str) -> None:
    aligned = align_spans(TEXT, [span(part, "PER")])
    assert aligned.labels == labels.split()
    assert aligned.meta["alignment"] == alignment


@pytest.mark.parametrize(
    ("spans", "problem"),
    [
        ([span("Ann Lee", "PER"), span("Lee", "ORG", field="spans.1")], r"`spans\.1`: it overlaps spans\.0"),
        ([span("Ann", "PER"), span("Ann", "PER", field="b")], "`b`: it overlaps"),
        ([span("An", "PER"), span("n ", "ORG", field="b")], r"`b`: it shares the word 'Ann' with spans\.0"),
        ([TextSpan(0, 1, "PER", "a"), TextSpan(2, 3, "ORG", "b")], "`b`: it shares the word 'Ann' with a"),
        ([TextSpan(3, 4, "PER", "a")], "`a`: no word lies in ' '"),
        ([TextSpan(0, 0, "PER", "a")], "`a`: characters 0 to 0 don't fit"),
        ([TextSpan(5, 3, "PER", "a")], "don't fit"),
        ([TextSpan(-4, 3, "PER", "a")], "don't fit"),
        ([TextSpan(0, 99, "PER", "a")], "characters 0 to 99 don't fit a text of 18"),
        ([TextSpan(0, 3, "O", "a")], "`a`: an entity can't be called 'O'"),
        ([TextSpan(0, 3, "PER", "a", "Bob")], "are 'Ann' and the span says 'Bob': the text was changed"),
    ],
)
def test_an_error_names_the_span(spans: list[TextSpan], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        align_spans(TEXT, spans)


@pytest.mark.parametrize(("text", "problem"), [("", "no word"), (" \n", "no word"), ("a \ud83d b", "surrogate")])
def test_texts_without_words_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as caught:
        align_spans(text, [], field="data.text")
    assert caught.value.field == "data.text"


# -- UTF-16 ------------------------------------------------------------------------------------------------------------

WAVING = "👋👋 Ann met 🦊 Bo in Oslo"


def utf16(part: str, label: str, text: str = WAVING) -> TextSpan:
    before, within = text[: text.index(part)], part
    start = len(before.encode("utf-16-le")) // 2
    return TextSpan(start, start + len(within.encode("utf-16-le")) // 2, label, part, part)


def test_utf16_offsets_are_detected_from_the_text_of_spans() -> None:
    aligned = align_spans(WAVING, [utf16("Ann", "PER"), utf16("Oslo", "LOC")])
    assert aligned.labels == ["O", "O", "B-PER", "O", "O", "O", "O", "B-LOC"]
    assert aligned.meta["given_offsets"] == "utf-16"


def test_a_span_without_text_is_counted_as_the_others() -> None:
    aligned = align_spans(WAVING, [*silent(utf16("Bo", "PER")), utf16("Oslo", "LOC")])
    assert aligned.labels == ["O", "O", "O", "O", "O", "B-PER", "O", "B-LOC"]


def test_two_ways_of_counting_in_one_text_are_refused() -> None:
    characters = span("Bo", "PER", WAVING, field="Bo")
    with pytest.raises(InvalidInput, match="`Oslo`"):
        align_spans(WAVING, [characters, utf16("Oslo", "LOC")])


def silent(*spans: TextSpan) -> list[TextSpan]:
    """As platforms write them that tell no text."""
    return [TextSpan(one.start, one.end, one.label, one.field) for one in spans]


@pytest.mark.parametrize("unit", [CHARACTERS, UTF16])
def test_without_text_word_boundaries_show_the_unit(unit: OffsetUnit) -> None:
    expected = {"offsets_told_by": "word boundaries", "given_offsets": "utf-16"}
    aligned = align_spans(WAVING, silent(utf16("Ann", "PER"), utf16("Bo in", "LOC")), unit=unit)
    assert aligned.labels == ["O", "O", "B-PER", "O", "O", "B-LOC", "I-LOC", "O"]
    assert {name: aligned.meta[name] for name in expected} == expected
    aligned = align_spans(WAVING, silent(span("Bo", "PER", WAVING), span("Oslo", "LOC", WAVING)), unit=unit)
    assert aligned.labels == ["O", "O", "O", "O", "O", "B-PER", "O", "B-LOC"]
    assert {name: aligned.meta[name] for name in expected} == expected | {"given_offsets": "characters"}


@pytest.mark.parametrize("unit", [CHARACTERS, UTF16])
def test_without_text_an_end_behind_the_text_shows_the_unit(unit: OffsetUnit) -> None:
    aligned = align_spans(WAVING, silent(utf16("slo", "LOC")), unit=unit)  # on no word's boundary
    assert aligned.labels[-1] == "B-LOC"
    assert (aligned.meta["given_offsets"], aligned.meta["offsets_told_by"]) == ("utf-16", "text length")
    assert aligned.meta["alignment"] == "expanded"
    inside = align_spans(
        "👋👋 x", silent(TextSpan(3, 4, "X")), unit=unit
    )  # in UTF-16 units it would cut the second in two
    assert inside.labels == ["O", "O", "B-X"]
    assert "given_offsets" not in inside.meta


@pytest.mark.parametrize(
    ("text", "start", "places"),
    [
        ("👋👋 a b c d", 7, {CHARACTERS: 4, UTF16: 3}),  # a word of its own at both places
        ("👋👋 ab cd", 6, {CHARACTERS: 3, UTF16: 2}),  # a word's beginning, and its end: neither is a word
    ],
)
@pytest.mark.parametrize("unit", [CHARACTERS, UTF16])
def test_without_evidence_the_unit_is_the_platforms(
    text: str, start: int, places: dict[OffsetUnit, int], unit: OffsetUnit
) -> None:
    aligned = align_spans(text, silent(TextSpan(start, start + 1, "X")), unit=unit)
    assert aligned.labels.index("B-X") == places[unit]
    assert (aligned.meta["given_offsets"], aligned.meta["offsets_told_by"]) == (unit, "platform")


def test_a_span_of_nothing_but_space_is_on_no_words_boundary() -> None:
    aligned = align_spans("👋 b c d", silent(TextSpan(4, 5, "X")), unit=UTF16)  # c; in units the space before it
    assert aligned.labels == ["O", "O", "B-X", "O"]
    assert aligned.meta["given_offsets"] == "characters"


@pytest.mark.parametrize("text", [TEXT, "Ännchen traf Øyvind"])
def test_no_unit_is_recorded_where_all_characters_are_one_unit(text: str) -> None:
    aligned = align_spans(text, [TextSpan(0, 3, "PER")], unit=UTF16)
    assert "given_offsets" not in aligned.meta
    assert "given_offsets" not in align_spans("Ann 👋", [TextSpan(0, 3, "PER")], unit=UTF16).meta
    assert "given_offsets" not in align_spans(WAVING, [], unit=UTF16).meta


def test_character_offsets_are_detected_from_the_text_of_spans() -> None:
    assert "given_offsets" not in align_spans(WAVING, [span("Oslo", "LOC", WAVING)], unit=UTF16).meta


def test_an_offset_inside_a_character_is_refused() -> None:
    with pytest.raises(InvalidInput, match="neither characters nor UTF-16 units"):
        align_spans("👋👋 x", [TextSpan(1, 3, "X", "a", "x")])


def test_line_breaks_may_be_written_in_several_ways() -> None:
    assert align_spans("Ann\r\nLee", [TextSpan(0, 8, "PER", "a", "Ann\\nLee")]).labels == ["B-PER", "I-PER"]


# -- there and back ----------------------------------------------------------------------------------------------------

TEXTS = st.text(alphabet=st.sampled_from("aB9.' -’\n👋é東\u0301"), min_size=1, max_size=40)


@st.composite
def entities(draw: st.DrawFn) -> tuple[str, list[Span]]:
    text = draw(TEXTS.filter(lambda text: split_words(text) != []))
    edges = draw(st.lists(st.integers(0, len(split_words(text))), unique=True, max_size=8))
    edges = sorted(edges)[: len(edges) // 2 * 2]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return text, [Span(start, end, draw(st.sampled_from(["PER", "LOC"]))) for start, end in pairs]


@settings(max_examples=100, deadline=None)
@given(entities(), st.sampled_from([Scheme.IOB1, Scheme.IOB2, Scheme.BILUO]))
def test_words_to_spans_to_words(given: tuple[str, list[Span]], scheme: Scheme) -> None:
    text, chosen = given
    words = split_words(text)
    labels = labels_from_spans(chosen, len(words), scheme)
    tokens = [word.extract(text) for word in words]
    meta = {"text": text, "splitter": SPLITTER, "scheme": scheme.value}
    text_spans = to_text_spans(read_sentence({"tokens": tokens, "labels": labels, "meta": meta}))
    assert text_spans is not None
    again = align_spans(text, text_spans, scheme=scheme)
    assert (again.tokens, again.labels) == (tokens, labels)
    assert again.meta["alignment"] == "exact"


@settings(max_examples=100, deadline=None)
@given(entities(), st.sampled_from([CHARACTERS, UTF16]))
def test_spans_over_words_need_no_text_where_the_platform_counts_as_it_says(
    given: tuple[str, list[Span]], unit: OffsetUnit
) -> None:
    text, chosen = given
    words = split_words(text)

    def counted(offset: int) -> int:
        return offset if unit == CHARACTERS else len(text[:offset].encode("utf-16-le")) // 2

    given_spans = [
        TextSpan(counted(words[one.start].start), counted(words[one.end - 1].end), one.type) for one in chosen
    ]
    aligned = align_spans(text, given_spans, unit=unit)
    assert aligned.labels == labels_from_spans(chosen, len(words), Scheme.IOB2)
    assert aligned.meta.get("given_offsets", unit) == unit


@settings(max_examples=100, deadline=None)
@given(
    TEXTS, st.lists(st.tuples(st.integers(-2, 42), st.integers(-2, 42), st.sampled_from(["PER", "O", ""])), max_size=4)
)
def test_any_spans_give_labels_or_one_error(text: str, given: list[tuple[int, int, str]]) -> None:
    try:
        aligned = align_spans(text, [TextSpan(*one, f"spans[{place}]") for place, one in enumerate(given)])
    except InvalidInput as error:
        if error.field is None:
            raise
        return
    assert len(aligned.tokens) == len(aligned.labels)
    assert sum(label.startswith("B-") for label in aligned.labels) == len(given)


def test_offsets_of_foreign_words_are_kept() -> None:
    words = [CharacterRange(0, 2), CharacterRange(2, 3), CharacterRange(4, 7)]
    aligned = align_spans("Ann Lee", [TextSpan(0, 3, "PER")], words=words, splitter="theirs")
    assert (aligned.tokens, aligned.labels) == (["An", "n", "Lee"], ["B-PER", "I-PER", "O"])
    sentence = read_sentence({"tokens": aligned.tokens, "labels": aligned.labels, "meta": aligned.meta})
    assert find_word_offsets(sentence) == words
    assert to_text_spans(sentence) == [TextSpan(0, 3, "PER", text="Ann")]


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {"text": 3},
        {"text": "a b"},
        {"text": "a b", "splitter": "another"},
        {"text": "other words", "splitter": SPLITTER},
        {"text": "a b", "offsets": [[0, 1]]},
        {"text": "a b", "offsets": [[0], "x", {}]},
    ],
)
def test_offsets_that_cannot_be_derived_are_none(meta: dict[str, object] | None) -> None:
    sentence = read_sentence({"tokens": ["a", "b"], "labels": ["O", "O"], "meta": meta})
    assert find_word_offsets(sentence) is None
    assert to_text_spans(sentence) is None


@pytest.mark.parametrize("scheme", [7, "xyz", None])
def test_labels_of_unknown_scheme_are_read_as_iob2(scheme: object) -> None:
    sentence = read_sentence({"tokens": ["a"], "labels": ["O"], "meta": {"scheme": scheme}})
    assert get_given_scheme(sentence) is Scheme.IOB2


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([0, 1], "`s`: write it as"),
        ("PER", "`s`: write it as"),
        (None, "`s`: write it as"),
        ([True, 1, "PER"], "`s.start`: it must be a whole number"),
        ([0.0, 1, "PER"], "`s.start`: it must be a whole number"),
        ([0, "1", "PER"], "`s.end`: it must be a whole number"),
        ([0, 10**30, "PER"], "`s.end`: it must be a whole number"),
        ({"end": 1, "label": "PER"}, "`s.start`: it is missing"),
        ({"start": 0, "end": 1}, "`s.label`: it is missing"),
        ({"start": 0, "end": 1, "label": ""}, "`s.label`: it is missing"),
        ({"start": 0, "end": 1, "label": 7}, "`s.label`: it must be text"),
        ({"start": 0, "end": 1, "label": ["A", "B"]}, r"`s.label`: 2 labels \(A, B\): a span needs exactly one"),
        ({"start": 0, "end": 1, "label": []}, "`s.label`: no label: a span needs exactly one"),
    ],
)
def test_unreadable_spans_name_their_field(value: object, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        read_span(value, "s")
