"""How often the interval of a delivery's error rate contains the true rate, over simulated deliveries of many kinds.

Beside the exact interval that `labelwatch accept` uses stand two that were not chosen: the mid-P variant of it, and Wilson's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from service.review.queue.figures.recall import compute_wilson_interval
from service.scoring import finite_population
from service.scoring.acceptance import CONFIDENCE, Delivery, estimate_error_rate
from tests.support.simulated_deliveries import KINDS, DeliveryKind, SimulatedDelivery, simulate_delivery

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DELIVERIES = 1_000
SEED = 16
MAX_ERROR_RATE = 0.03


def run() -> list[dict[str, Any]]:
    print(f"{'kind':<30}{'exact':>16}{'mid-P':>16}{'Wilson':>16}   false accept / reject at {MAX_ERROR_RATE:g}")
    rows = [_measure_kind(kind) for kind in KINDS]
    worst = min(row["exact"] for row in rows)
    what = f"least coverage of {len(rows)} kinds, {DELIVERIES} deliveries each; nominal {CONFIDENCE:g}"
    return [{"name": "acceptance_coverage", "ratio": worst, "detail": {"what": what, "kinds": rows}}]


def _measure_kind(kind: DeliveryKind) -> dict[str, Any]:
    rng = np.random.default_rng((SEED, *kind.name.encode()))
    simulated = [simulate_delivery(kind, rng) for _ in range(DELIVERIES)]
    exact, mid_p, wilson = (_measure(simulated, build) for build in (_build_exact, _build_mid_p, _build_wilson))
    verdicts = [estimate_error_rate(each.delivery).decide(MAX_ERROR_RATE) for each in simulated]
    are_good = [each.true_rate <= MAX_ERROR_RATE for each in simulated]
    false_accepts = sum(v == "accept" and not good for v, good in zip(verdicts, are_good, strict=True))
    false_rejects = sum(v == "reject" and good for v, good in zip(verdicts, are_good, strict=True))
    cells = "".join(f"{coverage:>9.3f} ±{width / 2:.3f}" for coverage, width in (exact, mid_p, wilson))
    print(f"{kind.name:<30}{cells}   {false_accepts} / {false_rejects}")
    return {
        "kind": kind.name,
        "exact": exact[0],
        "mid_p": mid_p[0],
        "wilson": wilson[0],
        "false_accepts": false_accepts,
        "false_rejects": false_rejects,
    }


def _measure(
    simulated: Sequence[SimulatedDelivery], build: Callable[[Delivery], tuple[float, float]]
) -> tuple[float, float]:
    """Coverage and mean width."""
    intervals = [build(each.delivery) for each in simulated]
    pairs = list(zip(intervals, simulated, strict=True))
    covered = sum(low - 1e-12 <= each.true_rate <= high + 1e-12 for (low, high), each in pairs)
    return covered / len(pairs), float(np.mean([high - low for low, high in intervals]))


def _build_exact(delivery: Delivery) -> tuple[float, float]:
    rate = estimate_error_rate(delivery)
    return rate.low, rate.high


def _build_mid_p(delivery: Delivery) -> tuple[float, float]:
    """As the exact one, but the sample itself counts half towards the tail."""

    def compute_upper(size: int, sample: int, wrong: int, tail: float) -> int:
        low, high = wrong, size - (sample - wrong)
        while low < high:
            middle = (low + high + 1) // 2
            at_most = finite_population.compute_cdf(wrong, size, middle, sample)
            below = finite_population.compute_cdf(wrong - 1, size, middle, sample) if wrong else 0.0
            low, high = (middle, high) if (at_most + below) / 2 > tail else (low, middle - 1)
        return low

    tail = (1 - CONFIDENCE) / 2 / max(1, len(delivery.sampled))
    low, high = delivery.flagged_wrong, delivery.flagged - delivery.flagged_ok + delivery.unsampled
    for s in delivery.sampled:
        low += s.size - compute_upper(s.size, s.decided, s.decided - s.wrong, tail)
        high += compute_upper(s.size, s.decided, s.wrong + s.unsure, tail)
    return low / delivery.sentences, high / delivery.sentences


def _build_wilson(delivery: Delivery) -> tuple[float, float]:
    """Wilson's interval of the control sample, without a correction for finite populations."""
    low, high = float(delivery.flagged_wrong), float(delivery.flagged - delivery.flagged_ok + delivery.unsampled)
    for s in delivery.sampled:
        if s.decided:
            low += s.size * compute_wilson_interval(s.wrong / s.decided, s.decided)[0]
            high += s.size * compute_wilson_interval((s.wrong + s.unsure) / s.decided, s.decided)[1]
        else:
            high += s.size
    return low / delivery.sentences, high / delivery.sentences
