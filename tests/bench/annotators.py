"""What the figures of annotators are worth, on simulated crowds that label the sample and are compared with the default model.

Spearman: between the estimate and the F1 against the truth in the same sentences. Coverage: the share of annotators whose
long-run F1 against the model is in the 95 % interval.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import spearmanr

from service.statistics.annotators.estimate import estimate_f1
from tests.support.crowd import Crowd, ErrorRates, draw_rates

if TYPE_CHECKING:
    from collections.abc import Callable

    Draw = Callable[[np.random.Generator], ErrorRates]

ROOT = Path(__file__).parents[2]
ANNOTATORS = 47  # as many as in the study with a real crowd
REPEATS = 8
SIZES = (25, 50, 100, 200, 400)
SEED = 11


def draw_even(rng: np.random.Generator) -> ErrorRates:
    return draw_rates(rng, float(rng.uniform(0, 0.5)))


def draw_good(rng: np.random.Generator) -> ErrorRates:
    return draw_rates(rng, float(rng.beta(1.5, 12)))


def draw_few_bad(rng: np.random.Generator) -> ErrorRates:
    return draw_rates(rng, float(rng.uniform(0.4, 0.8) if rng.random() < 0.1 else rng.uniform(0, 0.1)))


def draw_copying(rng: np.random.Generator) -> ErrorRates:
    """A fifth of the annotators takes over most of what the model finds."""
    copies = float(rng.uniform(0.5, 1)) if rng.random() < 0.2 else 0.0
    return draw_rates(rng, float(rng.uniform(0, 0.5)), copies=copies)


CROWDS: dict[str, tuple[str, Draw]] = {
    "even": ("error rates from 0 to .5", draw_even),
    "good": ("mostly few errors, 11 % on average", draw_good),
    "few-bad": ("nine of ten below .1, the others above .4", draw_few_bad),
    "copying": ("as even, and every fifth copies the model", draw_copying),
}


def measure_crowd(crowd: Crowd, draw: Draw, rng: np.random.Generator, sizes: tuple[int, ...]) -> dict[str, float]:
    ranks, covered, widths, shrunk, raw = [], [], [], [], []
    for _ in range(REPEATS):
        simulated = [crowd.simulate(draw(rng), int(rng.choice(sizes)), rng) for _ in range(ANNOTATORS)]
        estimates = estimate_f1({str(number): each.sums for number, each in enumerate(simulated)})
        pairs = [(estimates[str(number)], each) for number, each in enumerate(simulated) if str(number) in estimates]
        ranks.append(spearmanr([one.estimate for one, _ in pairs], [each.true_f1 for _, each in pairs]).statistic)
        covered += [one.low <= each.long_run_f1 <= one.high for one, each in pairs]
        widths += [one.high - one.low for one, _ in pairs]
        shrunk += [abs(one.estimate - each.long_run_f1) for one, each in pairs]
        raw += [abs(one.f1 - each.long_run_f1) for one, each in pairs]
    return {
        "spearman": float(np.mean(ranks)),
        "spearman_lowest": float(np.min(ranks)),
        "coverage": float(np.mean(covered)),
        "width": float(np.mean(widths)),
        "error_of_estimate": float(np.mean(shrunk)),
        "error_of_ratio": float(np.mean(raw)),
        "annotators": len(covered),
    }


def run() -> list[dict[str, Any]]:
    crowd = Crowd.load(ROOT / "models/default", ROOT / "models/sample/sample.truth.tsv")
    rng = np.random.default_rng(SEED)
    results = []
    for name, (text, draw) in CROWDS.items():
        for label, sizes in (("25 sentences each", (25,)), ("25 to 400 sentences each", SIZES), ("400 each", (400,))):
            figures = measure_crowd(crowd, draw, rng, sizes)
            what = (
                f"Spearman with F1 against the truth (lowest of {REPEATS}: {figures['spearman_lowest']:.2f}); coverage "
                f"{figures['coverage']:.3f}, width {figures['width']:.3f}, error {figures['error_of_estimate']:.3f} "
                f"(unshrunk {figures['error_of_ratio']:.3f}); {text}, {label}"
            )
            entry = {"name": f"annotators-{name}-{sizes[0]}-{sizes[-1]}", "ratio": figures["spearman"]}
            results.append({**entry, "detail": {"what": what, **figures}})
    return [*results, measure_cost(crowd)]


def measure_cost(crowd: Crowd) -> dict[str, Any]:
    """The time to learn the sums, beside that of the model."""
    classifier_s, learn_s = crowd.time_model(), float("inf")
    updates = crowd.build_updates()
    for _ in range(10):
        start = time.perf_counter()
        crowd.learn(updates)
        learn_s = min(learn_s, time.perf_counter() - start)
    per_sentence = 1e6 / len(crowd.pool)
    what = f"share of the model's time: {learn_s * per_sentence:.0f} of {classifier_s * per_sentence:.0f} µs a sentence"
    return {"name": "annotators-cost", "ratio": learn_s / classifier_s, "detail": {"what": what}}
