"""The part of the training scripts that needs no training environment: the sentences made, and the errors planted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from service.labels import Scheme, detect_scheme
from tests.support.model_scripts import import_scripts

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = """Mara\tB-PER
Lind\tI-PER
flew\tO
to\tO
Oslo\tB-LOC

Rain\tO
fell\tO

Tern\tB-ORG
Works\tI-ORG
hired\tO
Ivo\tB-PER
"""


@pytest.fixture(scope="module")
def scripts() -> Iterator[dict[str, Any]]:
    with import_scripts("corpus", "noise") as modules:
        yield modules


@pytest.fixture(scope="module")
def corpus(scripts: dict[str, Any]) -> Any:
    return scripts["corpus"]


@pytest.fixture(scope="module")
def noise(scripts: dict[str, Any]) -> Any:
    return scripts["noise"]


@pytest.fixture(scope="module")
def train(corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("columns") / "train.tsv"
    path.write_text(COLUMNS, encoding="utf-8")
    return corpus.read_columns(path)


def test_columns_are_read_sentence_by_sentence(corpus: Any, train: Any) -> None:
    assert [len(sentence.words) for sentence in train] == [5, 2, 4]
    assert corpus.names(train[0].labels) == ["B-PER", "I-PER", "O", "O", "B-LOC"]


def test_made_sentences_are_the_same_every_time_and_another_seed_makes_others(corpus: Any, train: Any) -> None:
    made = list(corpus.make_sentences(train, copies=3, seed=7))
    assert made == list(corpus.make_sentences(train, copies=3, seed=7))
    assert corpus.digest(made) == corpus.digest(made)
    assert corpus.digest(made) != corpus.digest(list(corpus.make_sentences(train, copies=3, seed=8)))


def test_copies_keep_types_and_stay_valid(corpus: Any, train: Any) -> None:
    made = list(corpus.make_sentences(train, copies=20, seed=1))
    assert made[: len(train)] == train
    with_entities = [sentence for sentence in train if any(sentence.labels)]
    assert len(made) == len(train) + 20 * len(with_entities)
    assert detect_scheme([corpus.names(sentence.labels) for sentence in made]) == Scheme.IOB2
    for number, sentence in enumerate(made[len(train) :]):
        original = with_entities[number % len(with_entities)]
        assert len(sentence.words) == len(sentence.labels)
        kinds = [[kind for _, _, kind in corpus.entities(each)] for each in (original, sentence)]
        assert kinds[0] == kinds[1]
    first = made[len(train) : len(train) + len(with_entities)]
    assert corpus.MASK not in {word for sentence in first for word in sentence.words}
    assert corpus.MASK in {word for sentence in made for word in sentence.words}


def test_planted_errors_are_rare_seeded_and_change_labels_only(corpus: Any, noise: Any, train: Any) -> None:
    many = train * 400
    planted = noise.corrupt(many, 3)
    assert planted == noise.corrupt(many, 3)
    assert planted != noise.corrupt(many, 4)
    wrong = [list(sentence.labels) != labels for sentence, labels in zip(many, planted, strict=True)]
    assert 0 < np.mean(wrong) < 0.1
    assert all(len(sentence.labels) == len(labels) for sentence, labels in zip(many, planted, strict=True))


def test_a_model_that_knows_the_truth_finds_every_planted_error_and_one_that_guesses_few(
    corpus: Any, noise: Any, train: Any
) -> None:
    many = train * 200
    n = len(corpus.LABELS)
    sure = [np.eye(n)[list(sentence.labels)] * 0.9 + 0.1 / n for sentence in many]
    rng = np.random.default_rng(0)
    guesses = [rng.dirichlet(np.ones(n), len(sentence.labels)) for sentence in many]
    assert noise.detection(many, sure) == pytest.approx(1)
    assert noise.detection(many, guesses) < 0.2
