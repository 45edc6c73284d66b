"""Every method is measured, once."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.errors import InvalidInput
from service.evaluation import metrics, paper
from service.evaluation.data import MERGED, UNMERGED, EvaluationData, read_evaluation_data
from service.evaluation.tables import (
    EvaluationResult,
    compare,
    compute_model_f1,
    evaluate,
    judge_all,
    measure_flags,
    measure_runs,
)
from service.scoring.sentence import METHODS
from service.scoring.token import TOKEN_SCORES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Arrays = dict[str, np.ndarray]


def find(results: list[EvaluationResult], **wanted: object) -> list[EvaluationResult]:
    return [r for r in results if all(getattr(r, key) == value for key, value in wanted.items())]


def test_every_method_with_every_token_score_once(data: EvaluationData) -> None:
    results = evaluate(data, stream=True, bootstrap=0)
    rows = Counter((r.level, r.method, r.token_score, r.classes, r.mode) for r in results)
    assert set(rows.values()) == {1}
    for classes in (5, 3):
        for mode in ("batch", "stream"):
            here = [r for r in results if (r.classes, r.mode) == (classes, mode)]
            sentences = {(r.method, r.token_score) for r in here if r.level == "sentence"}
            assert sentences == {*paper.SENTENCE_METRICS, ("priority", None)}
            assert {r.method for r in here if r.level == "token"} == {*TOKEN_SCORES, "priority"}
            assert len(here) == 33 + 1 + 4


def test_the_paper_has_figures_for_every_method() -> None:
    expected = {
        (name, score) for name, m in METHODS.items() for score in (TOKEN_SCORES if m.uses_token_score else [None])
    }
    assert set(paper.SENTENCE_METRICS) == expected
    assert paper.SENTENCE_METRICS["worst-token", "self-confidence"] == (
        (0.4357, 0.4021, 0.4236),
        (0.9058, 0.9141, 0.8905),
        (9.02, 8.71, 8.83),
    )
    for row in paper.SENTENCE_METRICS.values():
        assert all(0.25 < value < 0.45 for value in row.auprc)
        assert all(0.80 < value < 0.92 for value in row.auroc)
        assert all(4.6 < value < 9.9 for value in row.lift)


def test_figures_are_those_of_the_scores(data: EvaluationData) -> None:
    judged = judge_all(data, stream=True)
    results = measure_runs(judged, n=0)
    for run in judged:
        for method, token_score in (("worst-token", "self-confidence"), ("bad-token-counts", None), ("priority", None)):
            (result,) = find(
                results,
                level="sentence",
                method=method,
                token_score=token_score,
                variant=run.variant.name,
                mode=run.mode,
            )
            scores, wrong = run.compute_sentence_scores(method, token_score), run.variant.wrong_sentences
            assert result.metrics == metrics.compute_all_metrics(scores, wrong)
            assert result.precision_at[20] == metrics.precision_at(scores, wrong, 20)
        (result,) = find(results, level="token", method="self-confidence", variant=run.variant.name, mode=run.mode)
        own = run.variant.flat.probs[np.arange(run.variant.flat.n_words), run.variant.flat.given]
        assert result.metrics["auprc"] == metrics.auprc(own, run.variant.wrong_words)


def test_flags_make_the_difference_between_modes(data: EvaluationData) -> None:
    results = evaluate(data, stream=True, bootstrap=0, classes=UNMERGED)
    for method, same in (("worst-token", True), ("bad-token-counts", False), ("priority", False)):
        batch, stream = (find(results, level="sentence", method=method, mode=mode)[0] for mode in ("batch", "stream"))
        assert (batch.metrics == stream.metrics) is same


@pytest.mark.parametrize(
    ("classes", "variants"), [("both", {UNMERGED, MERGED}), (MERGED, {MERGED}), (UNMERGED, {UNMERGED})]
)
def test_the_wanted_classes_are_judged(data: EvaluationData, classes: str, variants: set[str]) -> None:
    results = evaluate(data, bootstrap=0, classes=classes)
    assert {r.variant for r in results} == variants
    assert {r.mode for r in results} == {"batch"}


def test_intervals_hold_their_figures_and_are_seeded(data: EvaluationData) -> None:
    results = evaluate(data, bootstrap=60, classes=MERGED)
    again = evaluate(data, bootstrap=60, classes=MERGED)
    assert [r.intervals for r in results] == [r.intervals for r in again]
    assert [r.intervals for r in results] != [r.intervals for r in evaluate(data, bootstrap=60, classes=MERGED, seed=1)]
    inside = [r.intervals["auroc"].low <= r.metrics["auroc"] <= r.intervals["auroc"].high for r in results]
    assert np.mean(inside) > 0.9


def test_words_are_resampled_by_sentence(data: EvaluationData) -> None:
    (run,) = judge_all(data, stream=False, classes=UNMERGED)
    results = measure_runs([run], n=30, seed=4)
    (result,) = find(results, level="token", method="priority")
    draws = metrics.draw_resamples(run.variant.flat.n_sentences, 30, 4)
    expected = metrics.bootstrap(
        run.word_priority, run.variant.wrong_words, draws=draws, units=run.variant.sentence_of_word
    )
    assert result.intervals == expected


def test_a_record_is_plain_json(data: EvaluationData) -> None:
    record = evaluate(data, bootstrap=10, classes=MERGED)[0].to_json()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["classes"] == 3
    assert record["variant"] == "merged"
    assert record["token_score"] is None
    assert isinstance(record["auprc_interval"], list)
    assert {"auprc", "ap", "auroc", "lift_at_t", "lift_at_t1"} <= set(record)


def test_nothing_wrong_is_null_not_nan(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["corrected"] = arrays["given"]
    clean = read_evaluation_data(save(arrays))
    results = evaluate(clean, stream=True, bootstrap=5)
    assert all(r.to_json()["auprc"] is None for r in results)
    assert json.dumps([r.to_json() for r in results], allow_nan=False)
    assert math.isnan(measure_flags(judge_all(clean, stream=False)[0]).recall)


def test_negative_resamples_are_refused(data: EvaluationData) -> None:
    with pytest.raises(InvalidInput, match="0 for none"):
        evaluate(data, bootstrap=-1)


def test_flag_figures_count_sentences(data: EvaluationData) -> None:
    (run,) = judge_all(data, stream=False, classes=UNMERGED)
    figures = measure_flags(run)
    flat = run.variant.flat
    flagged = np.array([run.flags[s:e].any() for s, e in zip(flat.starts, flat.ends, strict=True)])
    wrong = run.variant.wrong_sentences
    assert figures.words == run.flags.sum()
    assert figures.rate == pytest.approx(flagged.mean())
    assert figures.precision == pytest.approx(wrong[flagged].mean())
    assert figures.recall == pytest.approx(flagged[wrong].mean())


def test_comparison_with_other_probabilities(arrays: Arrays, data: EvaluationData, save: Callable[..., Path]) -> None:
    uniform = np.full_like(arrays["probs"], 0.2)
    arrays["probs"] = (0.2 * arrays["probs"] + 0.8 * np.roll(uniform, 1)).astype(np.float32)
    rng = np.random.default_rng(0)
    arrays["probs"] = rng.permutation(arrays["probs"])
    other = read_evaluation_data(save(arrays, "other.npz"))
    rows = compare(data, other, stream=True, n=40)
    keys = [(r.method, r.variant, r.mode, r.metric) for r in rows]
    assert len(keys) == len(set(keys)) == 2 * (2 + 1) * 2
    assert ("priority", "merged", "stream", "ap") in keys
    for row in rows:
        assert row.difference.difference == pytest.approx(row.ours - row.other)
        assert row.difference.low > 0
    mirrored = compare(other, data, stream=True, n=40)
    assert [r.difference.difference for r in mirrored] == pytest.approx([-r.difference.difference for r in rows])


def test_f1_of_the_likeliest_labels(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["probs"] = np.eye(5, dtype=np.float32)[arrays["corrected"]]
    f1 = compute_model_f1(read_evaluation_data(save(arrays)))
    assert f1 is not None
    assert f1["corrected"].f1 == 1.0
    assert f1["given"].f1 < 1.0


def test_no_f1_where_names_follow_no_scheme(arrays: Arrays, save: Callable[..., Path]) -> None:
    arrays["labels"] = np.array(["O", "B-PER", "PER", "I-LOC", "LOC"])
    assert compute_model_f1(read_evaluation_data(save(arrays))) is None
