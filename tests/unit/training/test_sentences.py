from __future__ import annotations

import pytest

from service.contracts import LabelledSentence
from service.errors import InvalidInput
from service.labels import Scheme
from service.training.sentences import MIN_SENTENCES, NO_CLASS, collect_sentences
from tests.support.training_data import make_training_text


def test_labels_become_classes_and_boundaries_are_kept() -> None:
    data = collect_sentences(make_training_text(200).sentences, Scheme.IOB2)
    assert set(data.classes) == {"O", "B-DRUG", "I-DRUG", "B-DISEASE", "I-DISEASE"}
    assert len(data.given) == data.starts[-1] == sum(map(len, data.sentences))
    assert data.unscored_types == ()


@pytest.mark.parametrize(("scheme", "labels"), [(Scheme.BILUO, ("U-X", "B-X", "L-X")), (Scheme.IO, ("X", "X", "O"))])
def test_other_schemes(scheme: Scheme, labels: tuple[str, ...]) -> None:
    sentences = [LabelledSentence(tokens=("a", "b", str(i)), labels=labels) for i in range(MIN_SENTENCES)]
    data = collect_sentences(sentences, scheme)
    assert data.scheme is (Scheme.IO if scheme is Scheme.IO else Scheme.IOB2)
    assert [data.classes[k] for k in data.given[:3]] == (
        ["X", "X", "O"] if scheme is Scheme.IO else ["B-X", "B-X", "I-X"]
    )


def test_too_few_sentences_are_refused_with_the_number() -> None:
    with pytest.raises(InvalidInput, match=rf"at least {MIN_SENTENCES} labelled sentences, there are 3: label more"):
        collect_sentences(make_training_text(3).sentences, Scheme.IOB2)


def test_data_without_entities_is_refused() -> None:
    sentences = [LabelledSentence(tokens=("a", str(i)), labels=("O", "O")) for i in range(MIN_SENTENCES)]
    with pytest.raises(InvalidInput, match=r"no entity type has 10 examples.*types found: none"):
        collect_sentences(sentences, Scheme.IOB2)


def test_a_rare_type_is_named_and_its_words_have_no_class() -> None:
    rare = LabelledSentence(tokens=("Rare", "thing"), labels=("B-RARE", "O"))
    data = collect_sentences([*make_training_text(200).sentences, rare], Scheme.IOB2)
    assert data.unscored_types == ("RARE",)
    assert data.examples["RARE"] == 1
    assert data.given[-2:].tolist() == [NO_CLASS, 0]
    assert not any("RARE" in name for name in data.classes)


def test_the_same_words_with_different_labels_are_a_conflict() -> None:
    text = make_training_text(200).sentences
    first = next(sentence for sentence in text if set(sentence.labels) != {"O"})
    twice = first.model_copy(update={"labels": ("O",) * len(first.tokens), "id": "again"})
    (conflict,) = collect_sentences([*text, twice, first], Scheme.IOB2).conflicts
    assert conflict.words == first.tokens
    assert conflict.ids == (first.id, "again")


def test_a_sample_is_bounded_and_does_not_depend_on_the_order() -> None:
    text = make_training_text(400).sentences
    forth = collect_sentences(text, Scheme.IOB2, max_words=2000)
    back = collect_sentences(reversed(text), Scheme.IOB2, max_words=2000)
    assert len(forth.given) <= 2000
    assert forth.n_read == 400
    assert set(forth.sentences) == set(back.sentences)


def test_deleted_sentences_do_not_count() -> None:
    gone = LabelledSentence(id="x", deleted=True)
    assert collect_sentences([gone, *make_training_text(200).sentences], Scheme.IOB2).n_read == 200


def test_repetitions_do_not_count_as_sentences_or_examples() -> None:
    """Equal sentences are in one fold: a hundred of them are one sentence to learn from."""
    text = make_training_text(1).sentences
    with pytest.raises(InvalidInput, match=r"there are 150 \(1 without repetitions\): label more"):
        collect_sentences(text * 150, Scheme.IOB2)
    rare = LabelledSentence(tokens=("Rare", "thing"), labels=("B-RARE", "O"))
    data = collect_sentences([*make_training_text(200).sentences, *[rare] * 50], Scheme.IOB2)
    assert data.unscored_types == ("RARE",)
    assert data.examples["RARE"] == 1
    assert data.conflicts == ()


def test_one_type_on_every_word_is_a_data_set() -> None:
    sentences = [LabelledSentence(tokens=("a", str(i)), labels=("B-X", "I-X")) for i in range(MIN_SENTENCES)]
    data = collect_sentences(sentences, Scheme.IOB2)
    assert data.classes == ("O", "B-X", "I-X")
    assert data.examples == {"X": MIN_SENTENCES}
