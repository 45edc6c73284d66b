from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidInput, UnknownLabelError
from service.labels import Scheme, Span, detect_class_scheme, detect_scheme, labels_from_spans, merge_by_type

IOB1, IOB2, BILUO, IO = Scheme.IOB1, Scheme.IOB2, Scheme.BILUO, Scheme.IO


def corpus(scheme: Scheme, n: int = 200, seed: int = 0) -> list[list[str]]:
    draw = random.Random(seed)
    sentences = []
    for _ in range(n):
        entities, here = [], 0
        for _ in range(draw.randrange(4)):
            start = here + draw.choice([0, 1, 2, 3])
            here = start + draw.choice([1, 1, 2, 3])
            entities.append(Span(start, here, draw.choice(["PER", "ORG"])))
        sentences.append(labels_from_spans(entities, here + 2, scheme))
    return sentences


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("noise", [0, 0.05])
def test_data_is_recognised_also_with_errors_in_it(scheme: Scheme, noise: float) -> None:
    draw = random.Random(1)
    sentences = corpus(scheme)
    vocabulary = sorted({label for labels in sentences for label in labels})
    noisy = [[draw.choice(vocabulary) if draw.random() < noise else x for x in labels] for labels in sentences]
    assert detect_scheme(noisy) is scheme


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("O O", IOB2),
        ("", IOB2),
        ("O B-PER O", IOB2),
        ("B-PER I-PER B-PER", IOB2),
        ("O I-PER I-PER O", IO),
        ("I-PER B-PER O", IOB1),
        ("I-PER O B-PER", IOB2),  # one for each: a tie
        ("O PER", IO),
        ("U-PER", BILUO),
        ("B-PER E-PER O S-LOC", BILUO),
        ("b-per i-per O", IOB2),
        ("E-MAIL PHONE O", IO),
        ("NOUN VERB . -", IO),
    ],
)
def test_what_small_evidence_says(labels: str, scheme: Scheme) -> None:
    assert detect_scheme([labels.split()]) is scheme


def test_a_sentence_does_not_go_on_in_the_next() -> None:
    assert detect_scheme([["B-PER"], ["I-PER"], ["I-PER"]]) is IOB1


def test_no_sentences_at_all() -> None:
    assert detect_scheme([]) is IOB2


def test_an_iterator_is_enough() -> None:
    assert detect_scheme(iter(corpus(BILUO))) is BILUO


@pytest.mark.parametrize(
    ("labels", "named"),
    [("B-PER I-PER ORG O", "'ORG'"), ("B-CELL T-CELL", "'T-CELL'"), ("B-PER O B-PER O E-MAIL O", "'E-MAIL'")],
)
def test_labels_that_fit_no_scheme(labels: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        detect_scheme([labels.split()])


@pytest.mark.parametrize("outside", ["o", "0", "OUT", "-", ""])
def test_another_spelling_of_outside(outside: str) -> None:
    with pytest.raises(UnknownLabelError, match=f'{{"{outside}": "O"}}'):
        detect_scheme([[outside, "B-PER", "I-PER"]])
    assert detect_scheme([[outside, "B-PER", "I-PER"]], {outside: "O"}) is IOB2


def test_an_empty_label_is_no_type() -> None:
    with pytest.raises(UnknownLabelError, match="empty"):
        detect_scheme([["PER", ""]])


def test_full_labels_may_be_mapped_before_the_scheme_is_detected() -> None:
    mapping = {"0": "O", "1": "B-PER", "2": "I-PER"}
    assert detect_scheme([["0", "1", "2"]], mapping) is IOB2
    assert detect_scheme([["0", "2", "2"], ["2", "1", "0"]], mapping) is IOB1


@given(st.sampled_from(list(Scheme)), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=30)
def test_the_order_of_sentences_does_not_matter(scheme: Scheme, draw: random.Random) -> None:
    sentences = corpus(scheme, 40, seed=3)
    expected = detect_scheme(sentences)
    draw.shuffle(sentences)
    assert detect_scheme(sentences) is expected


@pytest.mark.parametrize(
    ("classes", "scheme"),
    [
        ("O B-PER I-PER B-LOC I-LOC", IOB2),
        ("O B-PER", IOB2),
        ("B-LOC B-MISC B-ORG I-LOC I-MISC I-ORG I-PER O", IOB1),
        ("O I-PER I-LOC", IO),
        ("O PER LOC", IO),
        ("NOUN VERB", IO),
        ("O B-PER I-PER L-PER U-PER", BILUO),
        ("O B-PER I-PER E-PER S-PER", BILUO),
    ],
)
def test_class_scheme(classes: str, scheme: Scheme) -> None:
    assert detect_class_scheme(classes.split()) is scheme


def test_classes_of_two_kinds_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`classes`.*'PER'"):
        detect_class_scheme(["O", "B-LOC", "I-LOC", "PER"])


@pytest.mark.parametrize(
    ("classes", "types", "mapping"),
    [
        ("O B-MISC I-MISC B-PER I-PER", "O MISC PER", (0, 1, 1, 2, 2)),
        ("B-LOC I-PER O I-LOC B-PER", "O LOC PER", (1, 2, 0, 1, 2)),
        ("O B-A L-A U-A I-A", "O A", (0, 1, 1, 1, 1)),
        ("PER O LOC", "O PER LOC", (1, 0, 2)),
        ("NOUN VERB", "NOUN VERB", (0, 1)),
        ("O B-PRODUCT-NAME I-PRODUCT-NAME", "O PRODUCT-NAME", (0, 1, 1)),
        ("O E-MAIL PHONE", "O E-MAIL PHONE", (0, 1, 2)),
    ],
)
def test_merged_classes(classes: str, types: str, mapping: tuple[int, ...]) -> None:
    assert merge_by_type(classes.split()) == (tuple(types.split()), mapping)


def test_merged_names_read_back_as_their_types() -> None:
    types, _ = merge_by_type(["O", "B-I-95", "I-I-95", "B-95", "I-95"])
    assert types == ("O", "I-I-95", "95")
