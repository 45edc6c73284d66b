"""The models that are shipped: whole, the same in every batch, and good enough to find the planted errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import DatasetSettings
from service.evaluation.metrics import auroc, entity_f1
from service.formats import read_sentences
from service.inference.classifier import Classifier, WordProbs
from service.inference.model.default import INCLUDED_MODELS, find_default_model
from service.inference.model.folder import ModelFolder, Precision
from service.inference.model.registry import ModelRegistry
from service.judging.judge import Judge
from service.labels import Scheme
from tests.support.tiny_models import get_runner

if TYPE_CHECKING:
    import numpy.typing as npt

    from service.contracts import LabelledSentence

SAMPLE = Path(__file__).parents[4] / "models" / "sample"
MEGABYTE = 1_000_000
FOLDERS = {
    "default": find_default_model(),
    **{name: ModelRegistry(Path("no registry")).resolve(name) for name in INCLUDED_MODELS},
}


@pytest.fixture(
    scope="module",
    params=[
        *(("default", precision, threads) for precision in get_args(Precision) for threads in (1, 2)),
        *((name, precision, 1) for name in INCLUDED_MODELS for precision in get_args(Precision)),
    ],
    ids=str,
)
def classifier(request: pytest.FixtureRequest) -> Classifier:
    name, precision, threads = request.param
    return Classifier(ModelFolder.load(FOLDERS[name], precision=precision), threads=threads)


@pytest.fixture(scope="module")
def sample() -> list[LabelledSentence]:
    return list(read_sentences(SAMPLE / "sample.tsv"))


@pytest.fixture(scope="module")
def truth() -> list[LabelledSentence]:
    return list(read_sentences(SAMPLE / "sample.truth.tsv"))


def answers(classifier: Classifier, sentences: list[LabelledSentence]) -> list[npt.NDArray[np.float64]]:
    results = classifier.infer([sentence.tokens for sentence in sentences])
    assert all(isinstance(each, WordProbs) for each in results)
    return [each.probs for each in results if isinstance(each, WordProbs)]


@pytest.mark.parametrize("name", FOLDERS)
def test_the_folder_is_small_and_starts_warm(name: str) -> None:
    folder = ModelFolder.load(FOLDERS[name])
    assert sum(file.stat().st_size for file in folder.path.glob("model*")) < 25 * MEGABYTE
    assert folder.exactly_invariant
    assert folder.held_out is not None
    assert folder.held_out_types is not None
    assert (folder.path / "CARD.md").exists()


def test_the_self_test_finds_no_change_between_batches(classifier: Classifier) -> None:
    assert classifier.batch_deviation == 0
    assert classifier.batching == "planned"


def test_probabilities_do_not_depend_on_batch_mates_to_the_bit(
    classifier: Classifier, sample: list[LabelledSentence]
) -> None:
    chosen = sample[:40]
    alone = [answers(classifier, [sentence])[0] for sentence in chosen]

    @settings(deadline=None, max_examples=15)
    @given(st.permutations(range(len(chosen))), st.integers(1, 40), st.sampled_from([64, 256, 512, 4096]))
    def any_plan(order: list[int], size: int, budget: int) -> None:
        get_runner(classifier)._batch_tokens = budget
        for start in range(0, len(order), size):
            group = order[start : start + size]
            for index, probs in zip(group, answers(classifier, [chosen[i] for i in group]), strict=True):
                np.testing.assert_array_equal(probs, alone[index])

    any_plan()


def test_a_sentence_of_5000_words_works(classifier: Classifier) -> None:
    [answer] = classifier.infer([["Oslo", "waits", "for", "rain", "."] * 1000])
    assert isinstance(answer, WordProbs)
    assert answer.probs.shape == (5000, 9)
    assert answer.n_windows > 1
    np.testing.assert_allclose(answer.probs.sum(axis=1), 1)


def test_it_reads_entities(
    classifier: Classifier, sample: list[LabelledSentence], truth: list[LabelledSentence]
) -> None:
    labels = classifier.folder.labels
    predicted = [[labels[k] for k in probs.argmax(axis=1)] for probs in answers(classifier, truth)]
    assert entity_f1([sentence.labels for sentence in truth], predicted, Scheme.IOB2).f1 > 0.8


def test_it_ranks_planted_errors_first(
    classifier: Classifier, sample: list[LabelledSentence], truth: list[LabelledSentence]
) -> None:
    judge = Judge(classifier.folder, DatasetSettings())
    wrong = np.array([one.labels != other.labels for one, other in zip(sample, truth, strict=True)])
    stats, priorities, flagged = judge.create_empty_stats(), [], []
    for sentence, words in zip(sample, classifier.infer_stream(s.tokens for s in sample), strict=True):
        assert isinstance(words, WordProbs)
        seen = judge.observe(sentence, words)
        said = judge.assess(seen, judge.build_threshold_set(stats))
        stats = judge.learn(seen, stats, priority=said.priority)
        priorities.append(said.priority)
        flagged.append(said.reason == "flagged")
    assert auroc(np.array(priorities, float), wrong) > 0.85
    assert np.array(flagged)[wrong].mean() > 3 * np.array(flagged).mean()
