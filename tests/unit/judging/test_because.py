from __future__ import annotations

import json

from service.contracts import Assessment, Because
from service.judging.because import MAX_TYPES, build_because
from service.statistics.memory.explain import EarlierWords, WordExplanation
from tests.support.review_queue import make_assessment

NOTHING = EarlierWords(0, {}, 60)


def name_type(model_type: str) -> str:
    return {"ORG": "Company", "LOC": "Place"}.get(model_type, model_type)


def test_mentions_older_mentions_and_the_pattern_in_the_names_of_the_dataset() -> None:
    explanation = WordExplanation(
        recent=EarlierWords(7, {"LOC": 0.9, "ORG": 6.07, "O": 0.03}, 200),
        older=EarlierWords(2, {"LOC": 1.8, "ORG": 0.2}, 4000),
        template=EarlierWords(3, {"ORG": 1.0, "LOC": 2.0}, 45),
    )
    assert build_because(4, explanation, given_type="LOC", name_type=name_type) == (
        Because(
            index=4, kind="mentions", words=7, sentences=200, by_type={"Company": 6.07, "Place": 0.9}, speaks="against"
        ),
        Because(
            index=4,
            kind="older_mentions",
            words=2,
            sentences=4000,
            by_type={"Place": 1.8, "Company": 0.2},
            speaks="for",
        ),
        Because(index=4, kind="pattern", words=3, sentences=45, by_type={"Place": 2.0, "Company": 1.0}, speaks="for"),
    )


def test_what_was_never_seen_is_left_out() -> None:
    unseen = WordExplanation(recent=NOTHING, older=None, template=NOTHING)
    assert build_because(4, unseen, given_type="LOC", name_type=name_type) == ()
    no_form = WordExplanation(recent=None, older=None, template=EarlierWords(1, {"O": 1.0}, 5))
    (pattern,) = build_because(4, no_form, given_type="O", name_type=name_type)
    assert (pattern.kind, pattern.speaks, pattern.by_type) == ("pattern", "for", {"O": 1.0})


def test_types_are_limited_and_types_of_one_name_are_added_up() -> None:
    many = EarlierWords(100, {f"T{number}": float(10 - number) for number in range(10)}, 200)
    (because,) = build_because(4, WordExplanation(many, None, NOTHING), given_type="T0", name_type=str.lower)
    assert list(because.by_type) == [f"t{number}" for number in range(MAX_TYPES)]
    two = EarlierWords(3, {"GPE": 1.0, "LOC": 2.0}, 200)
    (because,) = build_because(4, WordExplanation(two, None, NOTHING), given_type="GPE", name_type=lambda _: "Place")
    assert because.by_type == {"Place": 3.0}


def test_types_of_one_name_are_compared_with_others_as_one() -> None:
    names = {"GPE": "Place", "LOC": "Place"}
    mixed = WordExplanation(EarlierWords(10, {"GPE": 3.0, "LOC": 3.0, "ORG": 4.0}, 200), None, NOTHING)
    (because,) = build_because(4, mixed, given_type="GPE", name_type=lambda name: names.get(name, name))
    assert list(because.by_type.items()) == [("Place", 6.0), ("ORG", 4.0)]
    assert because.speaks == "for"


def test_of_many_types_that_are_all_improbable_the_likeliest_is_named() -> None:
    one = EarlierWords(1, {"T0": 0.006, **{f"T{number}": 0.005 for number in range(1, 199)}}, 200)
    (because,) = build_because(4, WordExplanation(one, None, NOTHING), given_type="T0", name_type=name_type)
    assert because.by_type == {"T0": 0.006}


def test_a_tie_speaks_for_the_given_label() -> None:
    tied = WordExplanation(EarlierWords(2, {"LOC": 1.0, "ORG": 1.0}, 9), None, NOTHING)
    for given_type, speaks in (("LOC", "for"), ("ORG", "for"), ("PER", "against")):
        (because,) = build_because(4, tied, given_type=given_type, name_type=name_type)
        assert because.speaks == speaks


def test_assessments_are_read_with_and_without_it() -> None:
    evidence = Because(index=4, kind="mentions", words=1, sentences=3, by_type={"LOC": 1.0}, speaks="for")
    assessment = make_assessment("a", because=(evidence,))
    message = json.loads(assessment.model_dump_json(exclude_none=True))
    assert Assessment.model_validate(message) == assessment
    del message["because"]
    assert Assessment.model_validate(message).because == ()
