from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.statistics.running import RunningStats
from service.stream.state.snapshot import StateSnapshot, StatsKey

ACCOUNT = StatsKey("news", "key/0")
OTHER = StatsKey("sport", "key/0")
EMPTY = RunningStats.empty(3)


def learned(stats: RunningStats, seed: int) -> RunningStats:
    rng = np.random.default_rng(seed)
    return stats.update(rng.dirichlet([0.3] * 3, 4), rng.integers(0, 3, 4), priority=float(rng.random()))


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 10**6)), max_size=25))
def test_totals_are_the_sum_of_the_sheets_whatever_happened(steps: list[tuple[int, int, int]]) -> None:
    ledger = StateSnapshot()
    for partition, which, seed in steps:
        account = (ACCOUNT, OTHER)[which]
        if seed % 3 == 0:
            ledger = ledger.with_stats(
                partition, account, learned(ledger.get_partition_stats(partition, account, EMPTY), seed)
            )
        elif seed % 3 == 1:
            draft = ledger.start_draft()
            draft.put_partition_stats(
                partition, account, learned(draft.get_partition_stats(partition, account, EMPTY), seed)
            )
            draft.put_total(account, learned(draft.get_total(account, EMPTY), seed))
            ledger = draft.to_snapshot()
        else:
            ledger = ledger.with_partition(partition, {account: learned(EMPTY, seed)})
    for account in (ACCOUNT, OTHER):
        total = EMPTY
        for partition in range(4):
            total = total.merge(ledger.get_partition_stats(partition, account, EMPTY))
        assert ledger.get_total(account, EMPTY) == total


def test_a_draft_changes_nothing_until_it_is_taken() -> None:
    ledger = StateSnapshot().with_stats(0, ACCOUNT, learned(EMPTY, 1))
    before = ledger.get_total(ACCOUNT, EMPTY)
    draft = ledger.start_draft()
    draft.put_partition_stats(0, ACCOUNT, learned(before, 2))
    draft.put_total(ACCOUNT, learned(before, 2))
    assert ledger.get_total(ACCOUNT, EMPTY) == before
    assert draft.to_snapshot().get_total(ACCOUNT, EMPTY) == learned(before, 2)


def test_a_partition_restored_empty_takes_its_share_of_the_total_along() -> None:
    ledger = StateSnapshot().with_stats(0, ACCOUNT, learned(EMPTY, 1)).with_stats(1, ACCOUNT, learned(EMPTY, 2))
    assert ledger.with_partition(0, {}).get_total(ACCOUNT, EMPTY) == learned(EMPTY, 2)
    assert ledger.with_partition(0, {}).with_partition(1, {}).get_total(ACCOUNT, EMPTY) == EMPTY


@pytest.mark.parametrize(("was", "now"), [(7, None), (7, 30), (30, 7), (None, 7)])
def test_an_idle_partition_that_was_written_under_another_memory_makes_nobody_forget(
    was: int | None, now: int | None
) -> None:
    """It is written anew only when it learns again; until then it has the setting that held when it last did."""
    probs, labels = np.array([[0.9, 0.1, 0.0]] * 4), np.zeros(4, np.intp)
    idle = RunningStats.empty(3, keep_days=was).update(probs, labels, day="2026-03-02" if was else "")
    busy = RunningStats.empty(3, keep_days=now).update(probs, labels, day="2026-03-08" if now else "")
    ledger = StateSnapshot().with_stats(0, ACCOUNT, idle).with_stats(1, ACCOUNT, busy)
    total = ledger.get_total(ACCOUNT, EMPTY).with_keep_days(now).get_total(now)
    expected = 8 if was is not None or now is None else 4  # what has no day is older than any
    assert total.counts[0] == expected
