from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import Assessment, Flag, SuspectSpan
from service.errors import InvalidInput
from service.review.queue.similar import MAX_PHRASE_WORDS, MAX_PHRASES, SimilarItems, list_doubtful_phrases
from tests.support.review_queue import (
    make_assessment,
    make_decision_output,
    make_review_output,
    make_settings_output,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.log.protocol import Output
    from tests.support.review_queue import QueueHarness


def make_doubt(sentence_id: str, text: str, given: str, suggested: str, **fields: Any) -> Assessment:
    """A sentence whose words in brackets have one type and should have another. O is no entity."""
    marked = text.split()
    start = next(index for index, word in enumerate(marked) if word.startswith("["))
    end = next(index for index, word in enumerate(marked) if word.endswith("]")) + 1
    tokens = tuple(word.strip("[]") for word in marked)

    def label(index: int, entity_type: str) -> str:
        return "O" if entity_type == "O" else f"{'B' if index == start else 'I'}-{entity_type}"

    labels = ["O"] * len(tokens)
    labels[start:end] = [label(index, given) for index in range(start, end)]
    flags = tuple(
        Flag(
            index=index,
            token=tokens[index],
            given=labels[index],
            suggested=label(index, suggested),
            p_given=0.1,
            p_suggested=0.9,
        )
        for index in range(start, end)
    )
    spans = [None if name == "O" else {"start": start, "end": end, "type": name} for name in (given, suggested)]
    kind = "missed" if given == "O" else "spurious" if suggested == "O" else "type"
    suspect = SuspectSpan.model_validate(
        {"kind": kind, "given_span": spans[0], "suggested_span": spans[1], "confidence": 0.9}
    )
    assessment = make_assessment(sentence_id, p=[0.5] * len(tokens), labels=labels, **fields)
    return assessment.model_copy(update={"tokens": tokens, "flags": flags, "worst": flags[0], "suspects": (suspect,)})


def write(harness: QueueHarness, *assessments: Assessment, more: Sequence[Output] = ()) -> None:
    harness.write(*map(make_review_output, assessments), *more)


def find(harness: QueueHarness, sentence_id: str, limit: int = 10) -> SimilarItems:
    found = harness.queue.find_similar("default", sentence_id, limit=limit)
    assert found is not None
    return found


def test_the_same_words_elsewhere(harness: QueueHarness) -> None:
    write(
        harness,
        make_doubt("a", "He joined [Real Madrid] in May", "LOC", "ORG"),
        make_doubt("b", "REAL MADRID beat [Lakeside Union]", "O", "ORG"),
        make_doubt("c", "They said [real madrid] lost", "O", "ORG"),
        make_doubt("d", "[Madrid] is real", "ORG", "LOC"),
        make_doubt("e", "Real , [Madrid]", "ORG", "LOC"),
        make_doubt("f", "[Real Madrid]", "LOC", "ORG", dataset="other"),
    )
    same_words = find(harness, "a").same_words
    assert same_words.phrases == (("Real", "Madrid"),)
    assert {item.id for item in same_words.items} == {"b", "c"}
    assert not same_words.more
    by_id = {item.id: item for item in same_words.items}
    unflagged, doubted = by_id["b"], by_id["c"]
    assert (unflagged.start, unflagged.end, unflagged.words) == (0, 2, ("REAL", "MADRID"))
    assert (unflagged.labels, unflagged.suggested) == (("O", "O"), (None, None))
    assert (unflagged.before, unflagged.after) == ((), ("beat", "Lakeside", "Union"))
    assert (doubted.before, doubted.words, doubted.after) == (("They", "said"), ("real", "madrid"), ("lost",))
    assert doubted.suggested == ("B-ORG", "I-ORG")


def test_words_with_an_accent_are_other_words(harness: QueueHarness) -> None:
    write(harness, make_doubt("a", "[Jose]", "LOC", "PER"), make_doubt("b", "[José]", "ORG", "PER"))
    assert find(harness, "a").same_words.items == ()


def test_a_doubtful_place_is_shown_before_another(harness: QueueHarness) -> None:
    write(
        harness,
        make_doubt("a", "in [China]", "ORG", "LOC"),
        make_doubt("b", "China beat [China]", "PER", "LOC"),
    )
    (item,) = find(harness, "a").same_words.items
    assert (item.start, item.end, item.suggested) == (2, 3, ("B-LOC",))


def test_the_same_pair_without_the_items_that_have_the_same_words(harness: QueueHarness) -> None:
    write(
        harness,
        make_doubt("a", "He joined [Real Madrid]", "LOC", "ORG"),
        make_doubt("b", "[Real Madrid] won", "LOC", "ORG"),
        make_doubt("c", "in the [Bus Drivers Union] today", "LOC", "ORG"),
        make_doubt("d", "in [Rome]", "ORG", "LOC"),
        make_doubt("e", "at [Ajax]", "LOC", "ORG", dataset="other"),
    )
    same_pair = find(harness, "a").same_pair
    assert (same_pair.given, same_pair.suggested) == ("LOC", "ORG")
    (item,) = same_pair.items
    assert (item.id, item.words, item.labels) == ("c", ("Bus", "Drivers", "Union"), ("B-LOC", "I-LOC", "I-LOC"))


def test_only_open_items_are_similar(harness: QueueHarness) -> None:
    closed = make_doubt("d", "[China]", "ORG", "LOC", reason="update", revision=1, update=True)
    write(
        harness,
        *(make_doubt(name, "[China]", "ORG", "LOC") for name in "abcd"),
        closed,
        more=[make_decision_output("c", "ok")],
    )
    assert [item.id for item in find(harness, "a").same_words.items] == ["b"]
    assert [item.id for item in find(harness, "c").same_words.items] == [
        "a",
        "b",
    ]  # a decided item has similar ones too


def test_lists_are_limited_and_say_so(harness: QueueHarness) -> None:
    write(
        harness,
        *(make_doubt(f"w{number}", "in [China]", "ORG", "LOC") for number in range(5)),
        *(make_doubt(f"p{number}", f"in [Town{number}]", "ORG", "LOC") for number in range(4)),
    )
    found = find(harness, "w0", limit=3)
    assert ([item.id for item in found.same_words.items], found.same_words.more) == (["w1", "w2", "w3"], True)
    found = find(harness, "w0", limit=4)
    assert ([item.id for item in found.same_words.items], found.same_words.more) == (["w1", "w2", "w3", "w4"], False)
    assert ([item.id for item in found.same_pair.items], found.same_pair.more) == (["p0", "p1", "p2", "p3"], False)
    found = find(harness, "p0", limit=2)
    assert (found.same_words.items, found.same_pair.more) == ((), True)
    for limit in (0, 51):
        with pytest.raises(InvalidInput) as caught:
            find(harness, "w0", limit=limit)
        assert caught.value.field == "limit"


def test_an_unknown_item_has_none(harness: QueueHarness) -> None:
    assert harness.queue.find_similar("default", "nothing", limit=5) is None


def test_punctuation_alone_is_not_searched(harness: QueueHarness) -> None:
    write(harness, make_doubt("a", "well [,] yes", "ORG", "O"), make_doubt("b", "no [,] no", "LOC", "O"))
    found = find(harness, "a")
    assert (found.same_words.phrases, found.same_words.items) == ((), ())


def test_a_deleted_item_has_no_similar_ones(harness: QueueHarness) -> None:
    write(harness, make_assessment("a", reason="deleted"), make_doubt("b", "[China]", "ORG", "LOC"))
    found = find(harness, "a")
    assert found.same_words.items == found.same_pair.items == ()


def test_a_control_sentence_looks_like_any_other(harness: QueueHarness) -> None:
    """Its worst word takes the place of a flag, and its rank is the one it shows."""
    harness.write(make_settings_output(name="default", control_share=0.5, version=1))
    control = make_assessment("b", tokens=("in", "China", "."), reason="control", inclusion_probability=0.5)
    write(harness, make_doubt("a", "of [China]", "ORG", "LOC"), control)
    (item,) = find(harness, "a").same_words.items
    assert (item.id, item.suggested) == ("b", ("B-ORG",))
    assert item.rank == harness.get_item("b").rank != control.priority
    assert find(harness, "b").same_words.phrases == (("China",),)


def test_phrases_are_limited() -> None:
    names = " ".join(f"Word{number}" for number in range(MAX_PHRASE_WORDS + 5))
    many = make_doubt("a", f"the long [{names}] name", "LOC", "ORG")
    (phrase,) = list_doubtful_phrases(many)
    assert phrase == many.tokens[2 : 2 + MAX_PHRASE_WORDS]
    separate = many.model_copy(update={"suspects": ()})
    assert len(list_doubtful_phrases(separate)) == MAX_PHRASES
    same = make_doubt("a", "[New new NEW]", "LOC", "ORG").model_copy(update={"suspects": ()})
    assert list_doubtful_phrases(same) == (("New",),)
