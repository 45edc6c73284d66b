"""Each flag policy decides by its own rule, and everything that lists policies reads them from one place."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from service.contracts import (
    FLAG_POLICIES,
    BelowPolicy,
    BudgetPolicy,
    ConfidentPolicy,
    DatasetSettings,
    ScoredSentence,
    describe_flag_policies,
)
from service.statistics.histogram import PriorityHistogram

DOCS = Path(__file__).resolve().parents[4] / "docs" / "stream.md"
PRIORITIES = PriorityHistogram.empty().update(np.linspace(0.005, 0.995, 100))
UNSCORED = ScoredSentence(has_flags=False, score=None, priority=None)


def test_the_confident_policy_selects_flagged_sentences_whatever_their_numbers() -> None:
    policy = ConfidentPolicy()
    cutoff = policy.compute_cutoff(PRIORITIES)
    assert cutoff is None
    assert policy.selects(ScoredSentence(has_flags=True, score=1.0, priority=1.0), cutoff)
    assert not policy.selects(ScoredSentence(has_flags=False, score=0.0, priority=0.0), cutoff)


def test_the_below_policy_compares_the_score() -> None:
    policy = BelowPolicy(kind="below", cut=0.2)
    cutoff = policy.compute_cutoff(PRIORITIES)
    assert cutoff == 0.2
    assert policy.selects(ScoredSentence(has_flags=False, score=0.19, priority=1.0), cutoff)
    assert not policy.selects(ScoredSentence(has_flags=True, score=0.2, priority=0.0), cutoff)
    assert not policy.selects(UNSCORED, cutoff)


def test_the_budget_policy_compares_the_priority_with_the_share_of_the_statistics() -> None:
    policy = BudgetPolicy(kind="budget", share=0.1)
    cutoff = policy.compute_cutoff(PRIORITIES)
    assert cutoff == PRIORITIES.find_cutoff(0.1)
    assert 0 < cutoff <= 0.105  # the 11th of the 100 priorities
    assert policy.selects(ScoredSentence(has_flags=False, score=1.0, priority=cutoff / 2), cutoff)
    assert not policy.selects(ScoredSentence(has_flags=True, score=0.0, priority=cutoff), cutoff)
    assert not policy.selects(UNSCORED, cutoff)


def test_the_error_text_has_an_example_of_every_policy() -> None:
    assert describe_flag_policies() == (
        '{"kind": "confident"}, {"kind": "below", "cut": …} or {"kind": "budget", "share": …}'
    )


@pytest.mark.parametrize("policy", FLAG_POLICIES)
def test_every_policy_is_documented_and_accepted_in_settings(policy: type[ConfidentPolicy]) -> None:
    (kind,) = get_args(policy.model_fields["kind"].annotation)
    assert f'`{{"kind": "{kind}"' in DOCS.read_text()
    fields = {name: 0.5 for name in policy.model_fields if name != "kind"}
    settings = DatasetSettings.model_validate({"flag_policy": {"kind": kind, **fields}})
    assert type(settings.flag_policy) is policy
