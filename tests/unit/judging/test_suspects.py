from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput
from service.judging.suspects import Suspect, decode_valid_path, find_suspects
from service.labels import Scheme, Span, is_valid_sequence, parse_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

IOB1, IOB2, BILUO, IO = Scheme.IOB1, Scheme.IOB2, Scheme.BILUO, Scheme.IO
CLASSES = {
    IOB1: ("O", "B-A", "I-A", "B-B", "I-B"),
    IOB2: ("O", "B-A", "I-A", "B-B", "I-B"),
    BILUO: ("B-A", "I-A", "L-A", "O", "S-A", "B-B", "E-B"),
    IO: ("O", "A", "B"),
}
TYPED = ("O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")


@st.composite
def cases(draw: st.DrawFn, most_words: int = 5) -> tuple[Scheme, NDArray[np.float64], int]:
    """(scheme, probabilities, seed). Small whole numbers over their sum: many ties, zeros and one-hot rows."""
    scheme = draw(st.sampled_from(list(Scheme)))
    k = len(CLASSES[scheme])
    row = st.lists(st.sampled_from([0, 0, 0, 1, 2, 5, 30]), min_size=k, max_size=k).filter(any)
    weights = np.array(draw(st.lists(row, min_size=1, max_size=most_words)), np.float64)
    return scheme, weights / weights.sum(axis=1, keepdims=True), draw(st.integers(0, 2**32 - 1))


def certain(labels: str, classes: Sequence[str] = TYPED, sure: float = 0.9) -> NDArray[np.float64]:
    """Probabilities of a model that is `sure` of these labels."""
    words = labels.split()
    probs = np.full((len(words), len(classes)), (1 - sure) / (len(classes) - 1))
    for i, label in enumerate(words):
        probs[i, classes.index(label)] = sure
    return probs


def compared(
    given_labels: str, predicted: str, flagged: str | None = None
) -> list[tuple[str, Span | None, Span | None]]:
    """Kinds and spans; all words are flagged unless said otherwise (as "..x")."""
    flags = [True] * len(given_labels.split()) if flagged is None else [mark == "x" for mark in flagged]
    found = find_suspects(given_labels.split(), certain(predicted), TYPED, IOB2, flags)
    return [(suspect.kind, suspect.given_span, suspect.suggested_span) for suspect in found]


# --- the most probable valid sequence


@cache
def valid_paths(scheme: Scheme, n: int) -> NDArray[np.intp]:
    """All sequences of n classes that the scheme allows."""
    classes = CLASSES[scheme]
    paths = product(range(len(classes)), repeat=n)
    return np.array([path for path in paths if is_valid_sequence([classes[k] for k in path], scheme)], np.intp)


@given(cases())
@settings(deadline=None, max_examples=100)
def test_decoding_equals_brute_force(case: tuple[Scheme, NDArray[np.float64], int]) -> None:
    """Fewest zeros first, then the largest product: over all sequences that the scheme allows."""
    scheme, probs, _ = case
    words = np.arange(len(probs))
    chosen = probs[words, valid_paths(scheme, len(probs))]
    zeros = (chosen == 0).sum(axis=1)
    products = np.where(chosen == 0, 1, chosen).prod(axis=1)
    decoded = decode_valid_path(probs, CLASSES[scheme], scheme)
    assert is_valid_sequence([CLASSES[scheme][k] for k in decoded], scheme)
    reached = probs[words, decoded]
    assert (reached == 0).sum() == zeros.min()
    assert reached[reached > 0].prod() == pytest.approx(products[zeros == zeros.min()].max(), rel=1e-9)


@given(cases(most_words=30))
@settings(deadline=None, max_examples=50)
def test_decoding_is_always_valid_and_the_argmax_where_that_is(case: tuple[Scheme, NDArray[np.float64], int]) -> None:
    scheme, probs, _ = case
    classes = CLASSES[scheme]
    decoded = decode_valid_path(probs, classes, scheme)
    assert is_valid_sequence([classes[k] for k in decoded], scheme)
    plain = probs.argmax(axis=1).tolist()
    if is_valid_sequence([classes[k] for k in plain], scheme):
        assert decoded == plain


def test_decoding_is_no_repair_word_by_word() -> None:
    """O I-A: the cheaper way out is to start the entity a word earlier, which no fix-up of the I- would find."""
    probs = np.array([[0.5, 0.45, 0.05, 0, 0], [0.05, 0.05, 0.9, 0, 0]])
    assert decode_valid_path(probs, CLASSES[IOB2], IOB2) == [1, 2]


def test_a_certain_contradiction_still_gives_a_valid_sequence() -> None:
    probs = np.eye(5)[[0, 2, 4, 2]]  # O I-A I-B I-A, each with probability 1
    with np.errstate(all="raise"):
        decoded = decode_valid_path(probs, CLASSES[IOB2], IOB2)
    assert is_valid_sequence([CLASSES[IOB2][k] for k in decoded], IOB2)


def test_single_precision_zeros() -> None:
    probs = np.eye(5, dtype=np.float32)[[0, 2]]
    assert is_valid_sequence([CLASSES[IOB2][k] for k in decode_valid_path(probs, CLASSES[IOB2], IOB2)], IOB2)


def test_decoding_does_not_change_its_input() -> None:
    probs = np.eye(5)[[0, 2]]
    before = probs.copy()
    decode_valid_path(probs, CLASSES[IOB2], IOB2)
    assert (probs == before).all()


def test_no_words() -> None:
    assert decode_valid_path(np.zeros((0, 3)), CLASSES[IO], IO) == []
    assert find_suspects([], np.zeros((0, 3)), CLASSES[IO], IO, []) == []


@pytest.mark.parametrize(
    ("classes", "scheme", "n"), [(("I-A",), IOB2, 2), (("B-A", "I-A"), BILUO, 3), (("B-A",), IOB1, 1)]
)
def test_classes_that_allow_no_valid_sequence(classes: tuple[str, ...], scheme: Scheme, n: int) -> None:
    with pytest.raises(InvalidInput, match=f"no sequence of {n} words is valid in scheme {scheme.value}"):
        decode_valid_path(np.full((n, len(classes)), 1 / len(classes)), classes, scheme)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(InvalidInput, match="5 classes"):
        decode_valid_path(np.full((2, 4), 0.25), CLASSES[IOB2], IOB2)
    with pytest.raises(InvalidInput, match="2 labels, 1 rows of probabilities and 2 flags"):
        find_suspects(["O", "O"], np.eye(5)[:1], CLASSES[IOB2], IOB2, [True, True])


# --- spans compared


def test_the_same_spans_are_no_suspects() -> None:
    assert compared("B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC") == []


def test_missed() -> None:
    assert compared("O O O", "O B-PER I-PER") == [("missed", None, Span(1, 3, "PER"))]


def test_spurious() -> None:
    assert compared("B-ORG I-ORG O", "O O O") == [("spurious", Span(0, 2, "ORG"), None)]


def test_type() -> None:
    assert compared("O B-ORG I-ORG", "O B-LOC I-LOC") == [("type", Span(1, 3, "ORG"), Span(1, 3, "LOC"))]


def test_boundary() -> None:
    assert compared("O B-ORG O", "B-ORG I-ORG O") == [("boundary", Span(1, 2, "ORG"), Span(0, 2, "ORG"))]


def test_another_type_comes_before_another_extent() -> None:
    assert compared("O B-ORG I-ORG", "B-LOC I-LOC O") == [("type", Span(1, 3, "ORG"), Span(0, 2, "LOC"))]


def test_each_overlapping_pair_is_one_suspect() -> None:
    assert compared("B-ORG I-ORG I-ORG", "B-LOC I-LOC B-ORG") == [
        ("type", Span(0, 3, "ORG"), Span(0, 2, "LOC")),
        ("boundary", Span(0, 3, "ORG"), Span(2, 3, "ORG")),
    ]


def test_one_entity_split_in_two() -> None:
    assert compared("B-PER B-PER", "B-PER I-PER") == [
        ("boundary", Span(0, 1, "PER"), Span(0, 2, "PER")),
        ("boundary", Span(1, 2, "PER"), Span(0, 2, "PER")),
    ]


def test_touching_is_not_overlapping() -> None:
    assert compared("B-PER O", "O B-PER") == [
        ("spurious", Span(0, 1, "PER"), None),
        ("missed", None, Span(1, 2, "PER")),
    ]


def test_a_broken_prefix_around_the_right_entity_is_no_suspect() -> None:
    assert compared("O I-PER I-PER", "O B-PER I-PER") == []


@pytest.mark.parametrize(
    ("flagged", "kinds"),
    [
        ("......", []),
        ("x.....", ["boundary"]),
        (".x....", ["boundary"]),
        ("..x...", []),
        ("...x..", ["missed"]),
        (".....x", ["spurious"]),
        (".x.x.x", ["boundary", "missed", "spurious"]),
    ],
)
def test_only_suspects_that_touch_a_flagged_word_remain(flagged: str, kinds: list[str]) -> None:
    found = compared("O B-ORG O O O B-LOC", "B-ORG I-ORG O B-PER O O", flagged)
    assert [kind for kind, _, _ in found] == kinds


def test_flags_may_be_an_array() -> None:
    found = find_suspects(["O", "O"], certain("O B-PER"), TYPED, IOB2, np.array([False, True]))
    assert [suspect.kind for suspect in found] == ["missed"]


def test_confidence_is_that_of_the_least_certain_word_of_both_spans() -> None:
    probs = certain("B-ORG I-ORG O O")
    probs[1] = [0.1, 0, 0, 0.1, 0.8, 0, 0]
    probs[2] = [0.7, 0, 0, 0, 0.3, 0, 0]
    given_labels = ["B-ORG", "I-ORG", "I-ORG", "O"]
    (suspect,) = find_suspects(given_labels, probs, TYPED, IOB2, [False, False, True, False])
    assert suspect == Suspect("boundary", Span(0, 3, "ORG"), Span(0, 2, "ORG"), 0.7)
    (suspect,) = find_suspects(["O", "O", "B-ORG", "O"], certain("O O O O", sure=0.6), TYPED, IOB2, [True] * 4)
    assert suspect == Suspect("spurious", Span(2, 3, "ORG"), None, 0.6)


def test_merged_classes() -> None:
    types = ("O", "PER", "LOC")
    probs = certain("PER PER O LOC", types)
    assert find_suspects(["PER", "PER", "O", "LOC"], probs, types, IO, [True] * 4) == []
    found = find_suspects(["PER", "O", "O", "PER"], probs, types, IO, [True] * 4)
    assert [(s.kind, s.given_span, s.suggested_span) for s in found] == [
        ("boundary", Span(0, 1, "PER"), Span(0, 2, "PER")),
        ("type", Span(3, 4, "PER"), Span(3, 4, "LOC")),
    ]


def test_a_given_type_that_the_model_does_not_have() -> None:
    found = find_suspects(["B-DATE", "I-DATE", "O"], certain("O B-ORG I-ORG"), TYPED, IOB2, [False, False, True])
    assert [(s.kind, s.given_span, s.suggested_span) for s in found] == [
        ("type", Span(0, 2, "DATE"), Span(1, 3, "ORG"))
    ]


@given(cases(most_words=12))
@settings(deadline=None, max_examples=100)
def test_what_suspects_promise(case: tuple[Scheme, NDArray[np.float64], int]) -> None:
    scheme, probs, seed = case
    classes, n = CLASSES[scheme], len(probs)
    draw = np.random.default_rng(seed)
    given_labels = [classes[k] for k in draw.integers(len(classes), size=n)]  # any labels, also invalid sequences
    flagged = draw.random(n) < 0.4
    predicted = parse_spans([classes[k] for k in decode_valid_path(probs, classes, scheme)], scheme)
    stated = parse_spans(given_labels, scheme)
    found = find_suspects(given_labels, probs, classes, scheme, flagged)

    extents = []
    for suspect in found:
        both = [span for span in (suspect.given_span, suspect.suggested_span) if span is not None]
        extent = range(min(s.start for s in both), max(s.end for s in both))
        extents.append(extent)
        assert any(flagged[word] for word in extent)
        assert suspect.given_span != suspect.suggested_span
        assert suspect.given_span is None or suspect.given_span in stated
        assert suspect.suggested_span is None or suspect.suggested_span in predicted
        assert 0 <= suspect.confidence <= 1
    assert len(set(found)) == len(found)
    assert [extent.start for extent in extents] == sorted(extent.start for extent in extents)

    # Every flagged word that the two readings put into different entities is in a suspect.
    covered = {word for extent in extents for word in extent}
    for word in np.flatnonzero(flagged):
        before = next((span for span in stated if span.start <= word < span.end), None)
        after = next((span for span in predicted if span.start <= word < span.end), None)
        if before != after:
            assert word in covered

    # The kinds are the table of the module, said once more by looking at every pair.
    overlapping = [(a, b) for a in stated for b in predicted if a.start < b.end and b.start < a.end]
    expected: set[tuple[str, Span | None, Span | None]] = {
        ("boundary" if a.type == b.type else "type", a, b) for a, b in overlapping if a != b
    }
    expected |= {("spurious", a, None) for a in stated if a not in [pair[0] for pair in overlapping]}
    expected |= {("missed", None, b) for b in predicted if b not in [pair[1] for pair in overlapping]}
    everything = find_suspects(given_labels, probs, classes, scheme, [True] * n)
    assert {(s.kind, s.given_span, s.suggested_span) for s in everything} == expected
    assert set(found) <= set(everything)
