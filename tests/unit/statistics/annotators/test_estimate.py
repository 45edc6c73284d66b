"""F1 with an interval, shrunk to the mean of the annotators: its properties, and what it is worth on a simulated crowd."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from service.statistics.annotators.estimate import estimate_f1
from service.statistics.annotators.sums import AnnotatorSums, SpanAgreement, SpanSums
from tests.support.crowd import Crowd, draw_rates

WEEK = "2024-05-27"
ROOT = Path(__file__).parents[4]


def build_sums(right: int, wrong: int) -> AnnotatorSums:
    """Sentences with one span each, which the model finds too, or has another type for."""
    same = SpanAgreement({"PER": SpanSums(1, 1, 1)})
    differs = SpanAgreement({"PER": SpanSums(1, 0, 0), "ORG": SpanSums(0, 1, 0)})
    return AnnotatorSums().add([(same, WEEK)] * right + [(differs, WEEK)] * wrong)


def test_few_sentences_are_drawn_to_the_mean_and_many_are_not() -> None:
    crowd = {f"a{number}": build_sums(170 + 2 * number, 30 - 2 * number) for number in range(10)}
    estimates = estimate_f1({**crowd, "new": build_sums(2, 3), "old": build_sums(800, 1200)})
    new, old = estimates["new"], estimates["old"]
    assert new.f1 == old.f1 == 0.4
    assert 0.45 < new.estimate < 0.9
    assert old.estimate == pytest.approx(0.4, abs=0.02)
    assert new.high - new.low > 4 * (old.high - old.low)
    assert all(each.low < each.estimate < each.high for each in estimates.values())


def test_a_perfect_start_is_no_proof() -> None:
    crowd = {f"a{number}": build_sums(160 + number, 40) for number in range(6)}
    perfect = estimate_f1({**crowd, "new": build_sums(5, 0)})["new"]
    assert perfect.f1 == 1.0
    assert perfect.estimate < 0.95
    assert perfect.low < 0.8 < perfect.high


def test_one_annotator_alone_is_drawn_nowhere() -> None:
    [estimate] = estimate_f1({"kim": build_sums(30, 10)}).values()
    assert estimate.estimate == pytest.approx(0.75, abs=0.02)
    assert estimate.low < 0.65
    assert estimate.high > 0.83


def test_annotators_without_spans_have_no_estimate() -> None:
    empty = AnnotatorSums().add([(SpanAgreement(), WEEK)] * 9)
    assert estimate_f1({"kim": empty, "lee": AnnotatorSums()}) == {}
    assert estimate_f1({"kim": empty, "lee": build_sums(3, 1)}).keys() == {"lee"}


def test_more_sentences_of_the_same_kind_narrow_the_interval() -> None:
    widths = [
        each.high - each.low for n in (10, 40, 160, 640) for each in estimate_f1({"kim": build_sums(4 * n, n)}).values()
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < widths[0] / 4


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    return Crowd.load(ROOT / "models/default", ROOT / "models/sample/sample.truth.tsv")


def test_a_simulated_crowd(crowd: Crowd) -> None:
    """The bounds leave room for chance: `python -m tests.bench annotators` prints the figures of a larger crowd."""
    rng = np.random.default_rng(7)
    sizes = rng.permutation(np.repeat([25, 50, 100, 200], 15))
    simulated = [crowd.simulate(draw_rates(rng, float(rng.uniform(0, 0.5))), int(size), rng) for size in sizes.tolist()]
    estimates = list(estimate_f1({str(number): each.sums for number, each in enumerate(simulated)}).values())
    covered = [one.low <= each.long_run_f1 <= one.high for one, each in zip(estimates, simulated, strict=True)]
    assert np.mean(covered) >= 0.88  # 95 % of 60: fewer than 53 happen once in 100 times
    rank = spearmanr([one.estimate for one in estimates], [each.true_f1 for each in simulated]).statistic
    assert rank > 0.9
    shrunk = np.mean([abs(one.estimate - each.long_run_f1) for one, each in zip(estimates, simulated, strict=True)])
    raw = np.mean([abs(one.f1 - each.long_run_f1) for one, each in zip(estimates, simulated, strict=True)])
    assert shrunk < raw


def test_the_long_run_of_the_simulation_is_what_many_sentences_give(crowd: Crowd) -> None:
    rng = np.random.default_rng(3)
    for copies in (0.0, 0.5):
        each = crowd.simulate(draw_rates(rng, 0.3, copies=copies), 4_000, rng)
        spans = each.sums.spans
        assert 2 * spans.matched / spans.total == pytest.approx(each.long_run_f1, abs=0.015)
