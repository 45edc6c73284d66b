"""Simulated deliveries: sentences of which some are wrong, a detector, a control sample, and reviewers who decide some."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from service.scoring.acceptance import Delivery, SampledStratum


@dataclass(frozen=True)
class DeliveryKind:
    """How a delivery comes about. Rates are probabilities per sentence, so each delivery differs."""

    name: str
    size: int = 2_000
    error_rate: float = 0.03
    recall: float = 0.7  # share of errors that are flagged
    false_flags: float = 0.03
    shares: tuple[float, ...] = (0.05,)  # control shares, each in force for an equal part of the delivery
    flagged_decided: float = 1.0  # the worst first
    controls_decided: float = 1.0
    unsure: float = 0.0
    redone: float = 0.0  # share of right sentences that are annotated again before a decision
    redone_if_wrong: float = 0.0  # the same of wrong ones: annotators find their own errors


@dataclass(frozen=True)
class SimulatedDelivery:
    delivery: Delivery
    true_rate: float


BASE = DeliveryKind("as usual")
KINDS = (
    BASE,
    replace(BASE, name="no errors", error_rate=0.0),
    replace(BASE, name="rare errors", error_rate=0.003, size=5_000),
    replace(BASE, name="rare errors, blind detector", error_rate=0.003, recall=0.0, size=5_000),
    replace(BASE, name="common errors", error_rate=0.25),
    replace(BASE, name="nearly all wrong", error_rate=0.97),
    replace(BASE, name="poor detector", recall=0.2, false_flags=0.1),
    replace(BASE, name="perfect detector", recall=1.0, false_flags=0.0),
    replace(BASE, name="small batch", size=60, shares=(0.3,)),
    replace(BASE, name="tiny batch", size=12, shares=(0.5,), error_rate=0.1),
    replace(BASE, name="large batch", size=50_000, shares=(0.01,)),
    replace(BASE, name="all drawn", size=300, shares=(1.0,)),
    replace(BASE, name="nine of ten drawn", size=400, shares=(0.9,), recall=0.3),
    replace(BASE, name="few controls decided", controls_decided=0.2),
    replace(BASE, name="few flagged decided", flagged_decided=0.3),
    replace(BASE, name="nothing decided", flagged_decided=0.0, controls_decided=0.0),
    replace(BASE, name="the share was raised twice", shares=(0.02, 0.05, 0.2), recall=0.3),
    replace(BASE, name="no sample at first", shares=(0.0, 0.1)),
    replace(BASE, name="reviewers unsure", unsure=0.1, recall=0.4),
    replace(BASE, name="errors annotated again", error_rate=0.08, recall=0.3, redone_if_wrong=0.7),
    replace(
        BASE,
        name="many annotated again, few decided",
        redone=0.1,
        redone_if_wrong=0.5,
        controls_decided=0.3,
        recall=0.3,
    ),
)


def simulate_delivery(kind: DeliveryKind, rng: np.random.Generator) -> SimulatedDelivery:
    wrong = rng.random(kind.size) < kind.error_rate
    flagged = rng.random(kind.size) < np.where(wrong, kind.recall, kind.false_flags)
    unsure = rng.random(kind.size) < kind.unsure
    suspicion = rng.normal(size=kind.size) + 1.5 * wrong
    in_order = np.flatnonzero(flagged)[np.argsort(-suspicion[flagged])]
    decided = np.zeros(kind.size, bool)
    decided[in_order[: round(kind.flagged_decided * len(in_order))]] = True
    share = np.repeat(kind.shares, -(-kind.size // len(kind.shares)))[: kind.size]
    drawn = ~flagged & (rng.random(kind.size) < share)
    decided |= drawn & (rng.random(kind.size) < kind.controls_decided)
    if kind.redone or kind.redone_if_wrong:
        redone = rng.random(kind.size) < np.where(wrong, kind.redone_if_wrong, kind.redone)
    else:
        redone = np.zeros(kind.size, bool)
    decided &= ~redone
    sure = decided & ~unsure
    sampled = []
    for probability in sorted({*kind.shares} - {0.0}):
        stratum = ~flagged & (share == probability)
        members = stratum & drawn
        sampled.append(
            SampledStratum(
                size=int(stratum.sum()),
                ok=int((members & sure & ~wrong).sum()),
                wrong=int((members & sure & wrong).sum()),
                unsure=int((members & ((decided & unsure) | redone)).sum()),
                open=int((members & ~decided & ~redone).sum()),
            )
        )
    delivery = Delivery(
        flagged=int(flagged.sum()),
        flagged_ok=int((flagged & sure & ~wrong).sum()),
        flagged_wrong=int((flagged & sure & wrong).sum()),
        flagged_open=int((flagged & ~decided & ~redone).sum()),
        sampled=tuple(sampled),
        unsampled=int((~flagged & (share == 0)).sum()),
    )
    return SimulatedDelivery(delivery, float(wrong.mean()))
