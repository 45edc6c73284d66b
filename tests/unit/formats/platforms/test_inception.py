"""Documents of INCEpTION: sentences by the CAS's own tokens, suggestions, and XML that must not reach the parser."""

from __future__ import annotations

from typing import Any

import cassis
import pytest

from service.errors import InvalidInput, SettingsError
from service.formats.platforms.inception import xml_guard
from service.formats.platforms.inception.documents import SENTENCE_TYPE, TOKEN_TYPE, InceptionDocument, TextRange
from service.formats.platforms.inception.xml_guard import MAX_TYPE_ELEMENTS, check_xml
from service.labels import Span
from tests.support.inception_documents import FEATURE, LAYER, make_request, make_type_system, read_answer

TEXT = ("Mara Quill flew to Riga .", "The 🚆 left Tallinn at ten .")


def read(request: dict[str, Any]) -> InceptionDocument:
    return InceptionDocument.read(request["document"]["xmi"], request["typeSystem"], layer=LAYER, feature=FEATURE)


def test_sentences_have_the_words_and_entities_of_the_cas() -> None:
    first, second = read(make_request(*TEXT, given=(("Mara Quill", "PER"), ("Tallinn", "LOC")))).list_sentences()
    assert first.tokens == ("Mara", "Quill", "flew", "to", "Riga", ".")
    assert first.given == (Span(0, 2, "PER"),)
    assert second.tokens[1] == "🚆"
    assert second.given == (Span(3, 4, "LOC"),)


def test_an_entity_that_ends_inside_a_word_has_the_word_and_the_first_of_two_counts() -> None:
    given = (("Mara Qui", "PER"), ("Quill flew", "ORG"), ("Riga", "LOC"))
    (sentence,) = read(make_request(TEXT[0], given=given)).list_sentences()
    assert sentence.given == (Span(0, 2, "PER"), Span(4, 5, "LOC"))


def test_only_sentences_of_the_range_are_read() -> None:
    document = read(make_request(*TEXT))
    assert [each.tokens[0] for each in document.list_sentences(TextRange(0, 4))] == ["Mara"]
    assert [each.tokens[0] for each in document.list_sentences(TextRange(20, 30))] == ["Mara", "The"]
    assert document.list_sentences(TextRange(400, 500)) == []


def test_annotations_that_overlap_do_not_multiply_the_text() -> None:
    types = make_type_system()
    request = make_request(TEXT[0], types=types)
    cas = cassis.load_cas_from_xmi(request["document"]["xmi"], types)
    for name in (SENTENCE_TYPE, TOKEN_TYPE):
        for begin in range(1, 20):
            cas.add(types.get_type(name)(begin=begin, end=len(TEXT[0])))
    (sentence,) = read({**request, "document": {"xmi": cas.to_xmi()}}).list_sentences()
    assert sentence.tokens == ("Mara", " Quill flew to Riga .")


def test_a_long_label_is_cut() -> None:
    (sentence,) = read(make_request(TEXT[0], given=(("Riga", "L" * 1_000_000),))).list_sentences()
    assert sentence.given == (Span(4, 5, "L" * 512),)


def test_a_suggestion_stands_at_its_words_beside_what_was_given() -> None:
    request = make_request(*TEXT, given=(("Riga", "ORG"),))
    document = read(request)
    first, second = document.list_sentences()
    document.add_suggestion(first, Span(0, 2, "PER"), score=0.75, explanation="why")
    document.add_suggestion(second, Span(3, 4, "LOC"), score=None, explanation="why")
    suggested, given = read_answer(request, document.to_xmi())
    assert [(each["words"], each["value"], each["_score"]) for each in suggested] == [
        ("Mara Quill", "PER", 0.75),
        ("Tallinn", "LOC", None),
    ]
    assert suggested[0]["_score_explanation"] == "why"
    assert given == [("Riga", "ORG")]
    # A second request with these suggestions in it takes them as no annotations.
    again = read({**request, "document": {"xmi": document.to_xmi()}})
    assert [each.given for each in again.list_sentences()] == [(Span(4, 5, "ORG"),), ()]


def test_a_layer_without_scores_gets_the_labels() -> None:
    request = make_request(TEXT[0], types=make_type_system(with_scores=False))
    document = read(request)
    document.add_suggestion(document.list_sentences()[0], Span(4, 5, "LOC"), score=0.5, explanation="why")
    (suggested,), _ = read_answer(request, document.to_xmi())
    assert (suggested["words"], suggested["value"]) == ("Riga", "LOC")


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"layer": "x.Other"}, "metadata.layer", "no layer 'x.Other'"),
        ({"feature": "identifier"}, "metadata.feature", "no feature 'identifier'"),
        ({"type_system": "<a>"}, "typeSystem", "is not XML"),
        ({"xmi": "<a/>"}, "document.xmi", "can't be read as a CAS"),
        ({"xmi": "no xml"}, "document.xmi", "is not XML"),
    ],
)
def test_a_request_that_does_not_fit_is_explained(change: dict[str, str], field: str, problem: str) -> None:
    request = make_request(TEXT[0])
    parts = {
        "xmi": request["document"]["xmi"],
        "type_system": request["typeSystem"],
        "layer": LAYER,
        "feature": FEATURE,
    }
    parts |= change
    with pytest.raises(InvalidInput, match=problem) as raised:
        InceptionDocument.read(parts["xmi"], parts["type_system"], layer=parts["layer"], feature=parts["feature"])
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>', "leave the line with <!DOCTYPE out"),
        ('<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;">]><a>&y;</a>', "leave the line with <!DOCTYPE out"),
        ('<?xml version="1.0" encoding="UTF-7"?><a/>', "declared as UTF-7: send it as UTF-8"),
        ("<a>" * 40 + "</a>" * 40, "nested more than 32 deep"),
        ("<a>&undefined;</a>", "is not XML"),
        ("<a>\ud800</a>", "half of a surrogate pair"),
        ("", "is not XML"),
    ],
)
def test_harmful_xml_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem) as raised:
        check_xml(text, field="document.xmi")
    assert raised.value.field == "document.xmi"


def test_the_number_of_elements_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xml_guard, "MAX_ELEMENTS", 3)
    check_xml("<a><b/><b/></a>", field="x")
    with pytest.raises(InvalidInput, match="more than 3 elements"):
        check_xml("<a><b/><b/><b/></a>", field="x")
    with pytest.raises(InvalidInput, match="more than 2 elements"):
        check_xml("<a><b/><b/></a>", field="x", max_elements=2)


def test_a_type_system_has_a_smaller_limit() -> None:
    """The library takes time that grows with the square of its types."""
    types = "<types>" + "<typeDescription/>" * MAX_TYPE_ELEMENTS + "</types>"
    with pytest.raises(InvalidInput, match="more than 20,000 elements") as raised:
        InceptionDocument.read("<a/>", types, layer="x", feature="y")
    assert raised.value.field == "typeSystem"


def test_without_the_library_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    request = make_request(TEXT[0])
    monkeypatch.setitem(__import__("sys").modules, "cassis", None)
    with pytest.raises(SettingsError, match=r"pip install 'labelwatch\[inception\]'"):
        read(request)
