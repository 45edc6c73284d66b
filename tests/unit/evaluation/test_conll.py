"""The figures of the study on CoNLL-2003 test, reproduced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.evaluation.data import UNMERGED, read_evaluation_data
from service.evaluation.from_model import build_evaluation_data
from service.evaluation.metrics import compute_all_metrics, compute_noise_matrix
from service.evaluation.runs import compute_memory_priority
from service.evaluation.tables import compute_model_f1, evaluate, judge_all, measure_flags
from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder
from service.scoring.flat import segment_min

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.conll


@pytest.mark.parametrize(
    ("name", "worst_token", "priority"),
    [
        ("minilm_probs", (0.408, 0.925), (0.486, 0.929)),
        ("minilm_distilled_probs", (0.478, 0.933), (0.540, 0.935)),
    ],
)
def test_figures_of_the_study(
    conll: Path, name: str, worst_token: tuple[float, float], priority: tuple[float, float]
) -> None:
    results = evaluate(read_evaluation_data(conll / f"{name}.npz"), stream=True, bootstrap=0, classes=UNMERGED)
    (plain,) = [
        r
        for r in results
        if (r.level, r.method, r.token_score, r.mode) == ("sentence", "worst-token", "self-confidence", "batch")
    ]
    assert (plain.metrics["auprc"], plain.metrics["auroc"]) == pytest.approx(worst_token, abs=0.002)
    (ours,) = [r for r in results if (r.level, r.method, r.mode) == ("sentence", "priority", "stream")]
    assert (ours.metrics["auprc"], ours.metrics["auroc"]) == pytest.approx(priority, abs=0.003)


def test_the_data_of_the_paper(conll: Path) -> None:
    data = read_evaluation_data(conll / "minilm_probs.npz")
    unmerged, merged = data.build_variant("unmerged"), data.build_variant("merged")
    assert (unmerged.flat.n_sentences, merged.classes) == (3449, ("O", "MISC", "PER", "ORG", "LOC"))
    assert (int(unmerged.wrong_sentences.sum()), int(merged.wrong_sentences.sum())) == (186, 184)
    assert int(unmerged.wrong_words.sum()) == 309
    matrix = compute_noise_matrix(unmerged.flat.given, unmerged.corrected, 9)
    percent = 100 * matrix / matrix.sum(axis=1, keepdims=True)
    names = list(unmerged.classes)
    printed = {("I-MISC", "O"): 18.90, ("B-MISC", "B-LOC"): 2.49, ("I-ORG", "O"): 3.18, ("B-LOC", "B-ORG"): 0.43}
    for (truth, given), value in printed.items():
        assert percent[names.index(truth), names.index(given)] == pytest.approx(value, abs=0.005)
    f1 = compute_model_f1(data)
    assert f1 is not None
    assert f1["given"].f1 == pytest.approx(0.889, abs=0.001)


def test_running_flags_find_what_the_study_found(conll: Path) -> None:
    run = judge_all(read_evaluation_data(conll / "minilm_probs.npz"), stream=True, classes=UNMERGED)[1]
    figures = measure_flags(run)
    assert (figures.rate, figures.precision, figures.recall) == pytest.approx((0.105, 0.36, 0.70), abs=0.01)


def test_every_method_keeps_its_figures(conll: Path) -> None:
    """AUPRC in batch, nine classes, self-confidence where a token score is needed."""
    results = evaluate(read_evaluation_data(conll / "minilm_probs.npz"), stream=False, bootstrap=0, classes=UNMERGED)
    measured = {
        r.method: r.metrics["auprc"]
        for r in results
        if r.level == "sentence" and r.token_score in (None, "self-confidence")
    }
    assert measured == pytest.approx(
        {
            "predicted-difference": 0.3214,
            "bad-token-counts": 0.3215,
            "bad-token-counts-avg": 0.3809,
            "bad-token-counts-min": 0.3894,
            "good-fraction": 0.3300,
            "penalize-bad-tokens": 0.3466,
            "average-quality": 0.3438,
            "product": 0.3782,
            "expected-bad": 0.3702,
            "expected-alt": 0.3792,
            "worst-token": 0.4081,
            "worst-token-min-alt": 0.4051,
            "worst-token-softmin": 0.4082,
            "priority": 0.4839,
        },
        abs=0.0005,
    )


def test_memory_finds_more_in_file_order(conll: Path) -> None:
    """With the default model, nine classes."""
    classifier = Classifier(ModelFolder.load(find_default_model()), threads=1)
    given, corrected = (list(read_sentences(conll / f"{name}.tsv")) for name in ("test", "test.corrected"))
    results = classifier.infer_stream(sentence.tokens for sentence in given)
    variant = build_evaluation_data(classifier.folder, given, corrected, results, name="test").build_variant(UNMERGED)
    for mode, figures in (("auto", (0.591, 0.945)), ("documents", (0.587, 0.945))):
        scores = segment_min(compute_memory_priority(variant, mode), variant.flat)
        metrics = compute_all_metrics(scores, variant.wrong_sentences)
        assert (metrics["auprc"], metrics["auroc"]) == pytest.approx(figures, abs=0.002)
