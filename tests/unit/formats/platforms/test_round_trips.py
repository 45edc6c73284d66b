"""In by our own readers, corrected, out, and in again: exactly the corrected labels, and all else as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import LabelledSentence
from service.errors import InvalidInput
from service.formats import FORMATS, choose_format
from service.formats.text.alignment import to_text_spans
from service.formats.text.restored_text import WriteContext
from service.formats.text.word_splitter import split_words
from service.labels import Scheme, Span, labels_from_spans, parse_spans
from tests.unit.formats.platforms.round_trip_bodies import (
    BODIES,
    CORRECTED,
    GIVEN,
    drop_region_ids,
    parse_objects,
    read_body,
    write_body,
)


def without_meta(sentence: LabelledSentence) -> LabelledSentence:
    return sentence.model_copy(update={"meta": None, "source": None})


@pytest.mark.parametrize("name", BODIES)
def test_uncorrected_annotations_come_back_unchanged(name: str) -> None:
    form, body = BODIES[name]
    (sentence,) = read_body(body, form)
    assert sentence.labels == GIVEN
    assert choose_format(sentence) == form
    (back,) = parse_objects(write_body([sentence], form))
    assert drop_region_ids(back) == body
    (again,) = read_body(write_body([sentence], form), form)
    assert again == sentence.model_copy(update={"source": again.source})  # that may be a place in a file


@pytest.mark.parametrize("name", BODIES)
def test_corrected_labels_come_back_and_nothing_else_changes(name: str) -> None:
    form, body = BODIES[name]
    (sentence,) = read_body(body, form)
    corrected = sentence.model_copy(update={"labels": CORRECTED})
    (back,) = read_body(write_body([corrected], form), form)
    assert without_meta(back) == without_meta(corrected)
    if back.meta is not None and "text" in back.meta:
        assert [(one.text, one.label) for one in to_text_spans(back) or ()] == [("Mara Quill", "PER"), ("Riga", "LOC")]


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("name", BODIES)
def test_in_every_scheme(name: str, scheme: Scheme) -> None:
    form, body = BODIES[name]
    labels = tuple(labels_from_spans(parse_spans(CORRECTED, Scheme.IOB2), len(CORRECTED), scheme))
    (sentence,) = read_body(body, form, scheme=scheme)
    (back,) = read_body(
        write_body([sentence.model_copy(update={"labels": labels})], form, WriteContext(scheme)), form, scheme=scheme
    )
    assert back.labels == labels


def test_labels_that_were_corrected_in_the_datasets_new_scheme_are_read_in_it() -> None:
    (sentence,) = read_body(BODIES["doccano"][1], "doccano")  # as IOB2
    labels = tuple(labels_from_spans(parse_spans(CORRECTED, Scheme.IOB2), len(CORRECTED), Scheme.BILUO))
    out = write_body([sentence.model_copy(update={"labels": labels})], "doccano", WriteContext(Scheme.BILUO))
    assert read_body(out, "doccano")[0].labels == CORRECTED
    wrong = sentence.model_copy(update={"labels": ("?", *CORRECTED[1:])})
    with pytest.raises(InvalidInput, match="--format jsonl") as caught:
        write_body([wrong], "doccano", WriteContext(Scheme.BILUO))
    assert (caught.value.sentence, caught.value.word, caught.value.field) == ("doccano:9", 0, "labels")


characters = st.sampled_from([*"ab.'’-1 \n", "é", "字", "🚢", "👩‍🚀", "\u0301"])
TEXT_FORMATS = ("label-studio", "argilla", "doccano", "prodigy", "spans")


@st.composite
def texts(draw: st.DrawFn) -> tuple[str, list[Span]]:
    """A text, and spans over its words that don't overlap."""
    text = "x" + "".join(draw(st.lists(characters, max_size=25)))
    words = len(split_words(text))
    cuts = sorted(draw(st.sets(st.integers(0, words), max_size=6)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return text, [Span(start, end, draw(st.sampled_from(["PER", "B-52"]))) for start, end in pairs]


def bare(form: str, text: str) -> object:
    """Of an annotation with one span, as that of a platform that tells nothing of offsets yet."""
    first = split_words(text)[0]
    span = {"start": first.start, "end": first.end, "label": "ORG"}
    value = {"start": first.start, "end": first.end, "text": first.extract(text), "labels": ["ORG"]}
    result = [{"from_name": "a", "to_name": "b", "type": "labels", "value": value}]
    return {
        "label-studio": {"id": 1, "data": {"text": text}, "annotations": [{"id": 2, "result": result}]},
        "argilla": {"id": "r", "fields": {"text": text}, "responses": {"q": [{"value": [span], "user_id": "u"}]}},
        "doccano": {"id": 1, "text": text, "label": [[first.start, first.end, "ORG"]]},
        "prodigy": {"text": text, "spans": [span], "answer": "accept", "_task_hash": 1},
        "spans": {"id": "1", "text": text, "spans": [span]},
    }[form]


@pytest.mark.parametrize("form", TEXT_FORMATS)
@given(texts())
@settings(deadline=None, max_examples=60)
def test_whatever_the_text_and_the_correction(form: str, made: tuple[str, list[Span]]) -> None:
    text, entities = made
    (sentence,) = read_body(bare(form, text), form)
    labels = tuple(labels_from_spans(entities, len(sentence.tokens), Scheme.IOB2))
    corrected = sentence.model_copy(update={"labels": labels})
    out = write_body([corrected], form)
    # An empty answer alone doesn't tell an Argilla question from others: the command line names it.
    (back,) = read_body(out, form, label="q" if form == "argilla" else None)
    assert (back.id, back.tokens, back.labels) == (sentence.id, sentence.tokens, labels)


# -- what is not just words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["doccano", "spans", "prodigy"])
def test_spans_that_end_inside_a_word_or_in_a_space_come_back_as_they_were(form: str) -> None:
    text = "Mara Quills ship left Riga today"
    given = [[0, 10, "PER"], [22, 27, "LOC"]]  # without the s, with the space behind
    objects_of = [{"start": start, "end": end, "label": label} for start, end, label in given]
    body = {"text": text, "label" if form == "doccano" else "spans": given if form == "doccano" else objects_of}
    (sentence,) = read_body(body | {"answer": "accept"}, form)
    assert sentence.labels == ("B-PER", "I-PER", "O", "O", "B-LOC", "O")
    (back,) = read_body(write_body([sentence], form), form)
    assert (back.meta or {})["loose"] == [[0, 10], [22, 27]]
    other = sentence.model_copy(update={"labels": ("B-ORG", "I-ORG", "O", "O", "B-LOC", "I-LOC")})
    (back,) = read_body(write_body([other], form), form)
    assert (back.labels, (back.meta or {})["loose"]) == (other.labels, [[0, 10]])


@pytest.mark.parametrize("form", TEXT_FORMATS)
def test_words_without_a_text_are_joined_by_one_space(form: str) -> None:
    sentence = LabelledSentence(
        id="s-1", tokens=("🚢", "New York", "won", "."), labels=("O", "I-LOC", "O", "O"), source="https://x.org/1"
    )
    context = WriteContext(Scheme.IOB1)
    (line,) = parse_objects(write_body([sentence], form, context))
    assert context.n_joined == 1
    text = json.dumps(line, ensure_ascii=False)
    assert "🚢 New York won ." in text
    assert "s-1" in text
    if form == "argilla":  # nobody there has answered
        value = {"label": "LOC", "start": 3, "end": 11}
        assert line["suggestions"] == {"entities": {"value": [value], "agent": "labelwatch"}}
        return
    (back,) = read_body(line, form)
    assert [(one.text, one.label) for one in to_text_spans(back) or ()] == [("New York", "LOC")]
    assert (back.tokens == sentence.tokens) == (form == "prodigy")  # only there words go along


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", BODIES)
def test_every_format_can_become_every_other(name: str, form: str) -> None:
    (sentence,) = read_body(BODIES[name][1], BODIES[name][0])
    out = write_body([sentence], form)
    if form != "argilla" or choose_format(sentence) == "argilla":
        (back,) = read_body(out, form)
        assert (back.tokens, back.labels) == (sentence.tokens, GIVEN)
        assert choose_format(back) == (choose_format(sentence) if form == "jsonl" else form)
    assert FORMATS[form].write_extension in (".json", ".jsonl", ".conll", ".csv", ".tsv")


def test_sentences_without_a_format_are_written_as_json_lines() -> None:
    plain = LabelledSentence(id="1", tokens=("a",), labels=("O",))
    for meta in (None, {}, {"format": "tomorrow's"}, {"format": 7}):
        assert choose_format(plain.model_copy(update={"meta": meta})) == "jsonl"


@pytest.mark.parametrize("form", FORMATS)
def test_no_sentence_at_all(form: str) -> None:
    assert read_body(write_body([], form) or "\n", form) == []
