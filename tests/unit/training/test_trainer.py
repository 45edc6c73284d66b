"""Training as a whole: out of sample by construction, deterministic, and blind to what types are called."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.contracts import BudgetPolicy, ConfidentPolicy, DatasetSettings
from service.errors import InvalidInput
from service.evaluation.metrics import auroc
from service.inference.classifier import Classifier, WordProbs
from service.inference.heads.cross_fitted import CrossFittedHead
from service.inference.model.default import find_default_encoder
from service.inference.model.encoder_folder import EncoderFolder
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.labels import Scheme
from service.training.sentences import collect_sentences
from service.training.trainer import train_model
from tests.support.training_data import make_training_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.contracts import LabelledSentence
    from tests.support.training_data import TrainingText


def train(text: Sequence[LabelledSentence], out: Path, *, encoder: EncoderFolder | None = None) -> ModelFolder:
    train_model(collect_sentences(text, Scheme.IOB2), out, name=out.name, encoder=encoder, threads=1)
    return ModelFolder.load(out)


def score_given_labels(folder: ModelFolder, text: Sequence[LabelledSentence]) -> np.ndarray:
    """The lowest probability of a given label in each sentence."""
    scores = []
    for sentence, answer in zip(text, Classifier(folder).infer([s.tokens for s in text]), strict=True):
        assert isinstance(answer, WordProbs)
        scores.append(min(answer.probs[i, folder.labels.index(label)] for i, label in enumerate(sentence.labels)))
    return np.array(scores)


@pytest.fixture(scope="module")
def noisy() -> TrainingText:
    return make_training_text(400, seed=1, n_errors=20)


@pytest.fixture(scope="module")
def hashed(noisy: TrainingText, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return train(noisy.sentences, tmp_path_factory.mktemp("models") / "hashed")


def find_quality(folder: ModelFolder, noisy: TrainingText) -> float:
    wrong = np.array([i in noisy.wrong for i in range(len(noisy.sentences))])
    return auroc(score_given_labels(folder, noisy.sentences), wrong)


def test_errors_in_the_training_data_are_found(hashed: ModelFolder, noisy: TrainingText) -> None:
    assert find_quality(hashed, noisy) > 0.95


def test_without_the_fold_rule_they_are_not(
    hashed: ModelFolder, noisy: TrainingText, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that has seen a sentence has learned its errors: the fold rule is what finds them."""
    honest = score_given_labels(hashed, noisy.sentences)
    own_fold = CrossFittedHead.compute_logits

    def use_another_fold(head: CrossFittedHead, words: Sequence[str], states: None, fold: int) -> np.ndarray:
        return own_fold(head, words, states, (fold + 1) % head._weights.n_folds)

    monkeypatch.setattr(CrossFittedHead, "compute_logits", use_another_fold)
    in_sample = score_given_labels(hashed, noisy.sentences)
    wrong = sorted(noisy.wrong)
    assert np.median(in_sample[wrong]) > 5 * np.median(honest[wrong])


def test_a_sentence_that_is_annotated_again_is_judged_by_the_same_head(
    hashed: ModelFolder, noisy: TrainingText
) -> None:
    words = noisy.sentences[0].tokens
    first, second = Classifier(hashed).infer([words, list(words)])
    assert isinstance(first, WordProbs)
    assert isinstance(second, WordProbs)
    assert np.array_equal(first.probs, second.probs)


def test_the_same_data_gives_the_same_bytes(hashed: ModelFolder, noisy: TrainingText, tmp_path: Path) -> None:
    again = train(noisy.sentences, tmp_path / "hashed")
    assert again.fingerprint == hashed.fingerprint
    assert (again.path / "model.json").read_bytes() == (hashed.path / "model.json").read_bytes()


def test_renamed_types_give_the_same_model_to_the_bit(hashed: ModelFolder, noisy: TrainingText, tmp_path: Path) -> None:
    renamed = [
        s.model_copy(update={"labels": tuple(x.replace("DRUG", "ZZ").replace("DISEASE", "AA") for x in s.labels)})
        for s in noisy.sentences
    ]
    other = train(renamed, tmp_path / "renamed")
    assert other.labels == tuple(x.replace("DRUG", "ZZ").replace("DISEASE", "AA") for x in hashed.labels)
    assert np.array_equal(score_given_labels(other, renamed), score_given_labels(hashed, noisy.sentences))


def test_the_folder_says_what_it_was_trained_on_and_holds_no_text(hashed: ModelFolder, noisy: TrainingText) -> None:
    manifest = json.loads((hashed.path / "model.json").read_text())
    assert manifest["training"]["sentences"] == 400
    assert manifest["training"]["types"].keys() == {"DRUG", "DISEASE"}
    assert manifest["figures"]["types"]["DRUG"]["f1"] > 0.7
    assert hashed.held_out is not None
    assert sum(hashed.held_out.counts) == sum(len(s.tokens) for s in noisy.sentences)
    content = b"".join(file.read_bytes() for file in hashed.path.iterdir())
    assert b"Velorin" not in content


def test_the_judge_starts_from_the_held_out_sums(hashed: ModelFolder) -> None:
    judge = Judge(hashed, DatasetSettings(name="med"))
    thresholds = judge.build_threshold_set(judge.create_empty_stats())
    assert all(value is not None for name, value in thresholds.by_class.items() if name != "I-DRUG")


def test_without_a_policy_of_its_own_a_dataset_sends_the_worst_to_review(hashed: ModelFolder) -> None:
    assert Judge(hashed, DatasetSettings(name="med")).flag_policy == BudgetPolicy(kind="budget", share=0.05)
    chosen = DatasetSettings(name="med", flag_policy=ConfidentPolicy())
    assert Judge(hashed, chosen).flag_policy == ConfidentPolicy()


def test_words_of_a_rare_type_are_not_judged_and_the_sentence_is_not_refused(
    noisy: TrainingText, tmp_path: Path
) -> None:
    sentence = noisy.sentences[0]
    rare = sentence.model_copy(update={"labels": ("B-RARE", *sentence.labels[1:]), "id": "rare"})
    folder = train([*noisy.sentences, rare], tmp_path / "rare")
    judge = Judge(folder, DatasetSettings(name="med"))
    (answer,) = Classifier(folder).infer([rare.tokens])
    assert isinstance(answer, WordProbs)
    observation = judge.observe(rare, answer)
    assert list(observation.unscored) == [0]
    with pytest.raises(InvalidInput, match="B-OTHER"):
        judge.observe(rare.model_copy(update={"labels": ("B-OTHER", *sentence.labels[1:])}), answer)


def test_a_folder_that_is_no_model_is_not_overwritten(noisy: TrainingText, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not lose me")
    with pytest.raises(InvalidInput, match="exists and is not a model folder"):
        train(noisy.sentences, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "do not lose me"


def test_training_again_replaces_the_folder(noisy: TrainingText, tmp_path: Path) -> None:
    first = train(noisy.sentences, tmp_path / "again")
    second = train(noisy.sentences[:300], tmp_path / "again")
    assert first.fingerprint != second.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_with_the_encoder_batch_mates_change_nothing(noisy: TrainingText, tmp_path: Path) -> None:
    encoder = EncoderFolder.load(find_default_encoder())
    folder = train(noisy.sentences[:150], tmp_path / "encoded", encoder=encoder)
    classifier = Classifier(folder)
    assert classifier.batch_deviation == 0
    long = [word for sentence in noisy.sentences[:40] for word in sentence.tokens]  # several windows, one fold
    sentences = [list(s.tokens) for s in noisy.sentences[:12]] + [long, ["\u200b"], ["Velorin", "\u200b", "helps"]]
    together = classifier.infer(sentences)
    for words, answer in zip(sentences, together, strict=True):
        (alone,) = classifier.infer([words])
        assert isinstance(answer, WordProbs)
        assert isinstance(alone, WordProbs)
        assert np.array_equal(answer.probs, alone.probs)
        np.testing.assert_allclose(answer.probs.sum(axis=1), 1)
    last = together[-1]
    assert isinstance(last, WordProbs)
    assert last.n_windows == 1
    assert list(last.unscored) == [1]
    assert isinstance(together[-3], WordProbs)
    assert together[-3].n_windows > 1
