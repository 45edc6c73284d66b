from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings
from hypothesis import strategies as st

from service.errors import InvalidInput, StateError
from service.statistics import (
    UNDATED,
    ClassStats,
    PriorityHistogram,
    RunningStats,
    compute_flag_thresholds,
    to_bucket_day,
)

K = 3
DAYS = [UNDATED, "2023-12-30", "2023-12-31", "2024-01-01", "2024-01-02", "2024-02-28", "2024-02-29", "2024-03-01"]


@dataclass(frozen=True)
class Sentence:
    """One sentence as a stream learns it."""

    seed: int
    n: int
    day: str

    def words(self) -> tuple[Any, Any]:
        rng = np.random.default_rng(self.seed)
        return rng.dirichlet(np.full(K, 0.3), self.n), rng.integers(0, K, self.n)

    @property
    def smoothed(self) -> Any:
        """Of every second sentence memory changes the probabilities."""
        return np.random.default_rng(self.seed + 1).dirichlet(np.full(K, 0.3), self.n) if self.seed % 2 else None

    @property
    def priority(self) -> float:
        return self.seed % 997 / 996

    def add_to(self, stats: RunningStats) -> RunningStats:
        return stats.update(*self.words(), day=self.day, priority=self.priority, smoothed=self.smoothed)


sentence = st.builds(Sentence, st.integers(0, 10**6), st.integers(0, 8), st.sampled_from(DAYS))
sentences = st.lists(sentence, max_size=12)
keep = st.one_of(st.none(), st.sampled_from([1, 2, 30, 60, 10**7]))


def taught(some: list[Sentence], keep_days: int | None = None) -> RunningStats:
    return reduce(lambda stats, sentence: sentence.add_to(stats), some, RunningStats.empty(K, keep_days=keep_days))


def by_hand(some: list[Sentence], keep_days: int | None) -> dict[str, ClassStats]:
    """Everything summed first, and forgotten once at the end."""
    buckets: dict[str, ClassStats] = {}
    for sentence in some:
        if sentence.n:
            bucket = buckets.get(sentence.day, ClassStats.empty(K))
            buckets[sentence.day] = bucket.update(*sentence.words(), smoothed=sentence.smoothed)
    newest = max(buckets, default=UNDATED)
    if keep_days is None or newest == UNDATED:
        return buckets

    def age(day: str) -> int:
        return (datetime.fromisoformat(newest) - datetime.fromisoformat(day)).days

    return {day: stats for day, stats in buckets.items() if day != UNDATED and age(day) <= keep_days}


@settings(deadline=None)
@example_of(sentences, keep, st.randoms(use_true_random=False), st.integers(1, 4))
def test_any_order_split_and_merge_equals_one_pass(
    some: list[Sentence], keep_days: int | None, random: Any, n_partitions: int
) -> None:
    whole = taught(some, keep_days)
    assert whole.buckets == by_hand(some, keep_days)
    shuffled = list(some)
    random.shuffle(shuffled)
    partitions: list[list[Sentence]] = [[] for _ in range(n_partitions)]
    for sentence in shuffled:
        random.choice(partitions).append(sentence)
    merged = reduce(RunningStats.merge, [taught(part, keep_days) for part in partitions])
    assert merged == whole == taught(shuffled, keep_days)
    assert json.dumps(merged.snapshot()) == json.dumps(whole.snapshot())
    assert (
        compute_flag_thresholds(merged.get_total(), None).tobytes()
        == compute_flag_thresholds(whole.get_total(), None).tobytes()
    )


@settings(deadline=None)
@example_of(st.lists(st.tuples(sentences, keep), min_size=3, max_size=3))
def test_merge_is_associative_and_commutative_even_where_they_keep_different_days(
    parts: list[tuple[list[Sentence], int | None]],
) -> None:
    x, y, z = (taught(some, keep_days) for some, keep_days in parts)
    assert x.merge(y) == y.merge(x)
    assert x.merge(y).merge(z) == x.merge(y.merge(z))
    assert x.merge(RunningStats.empty(K)) == x


@settings(deadline=None)
@example_of(sentences, keep)
def test_the_total_is_the_sum_of_the_buckets(some: list[Sentence], keep_days: int | None) -> None:
    stats = RunningStats.empty(K, keep_days=keep_days)
    for sentence in some:
        stats = sentence.add_to(stats)
        assert stats.get_total() == reduce(ClassStats.merge, stats.buckets.values(), ClassStats.empty(K))
    for window in (1, 2, 60):
        kept = window if keep_days is None else min(window, keep_days)
        expected = by_hand(some, kept).values()
        assert stats.get_total(window) == reduce(ClassStats.merge, expected, ClassStats.empty(K))


@settings(deadline=None)
@example_of(sentences, keep)
def test_a_snapshot_comes_back_to_the_bit(some: list[Sentence], keep_days: int | None) -> None:
    stats = taught(some, keep_days)
    back = RunningStats.restore(json.loads(json.dumps(stats.snapshot())))
    assert back == stats
    assert back.get_total() == stats.get_total()
    sentence = Sentence(7, 5, DAYS[3])
    assert sentence.add_to(back) == sentence.add_to(stats)


def test_update_changes_nothing() -> None:
    before = taught([Sentence(1, 4, DAYS[1]), Sentence(2, 4, DAYS[2])], 30)
    text = json.dumps(before.snapshot())
    for day in DAYS:
        assert Sentence(3, 4, day).add_to(before) is not before
    assert json.dumps(before.snapshot()) == text


def test_a_dataset_that_doesnt_forget_has_one_bucket_equal_to_its_class_stats() -> None:
    some = [Sentence(i, 6, UNDATED) for i in range(20)]
    stats = taught(some)
    plain = reduce(
        lambda sums, sentence: sums.update(*sentence.words(), smoothed=sentence.smoothed), some, ClassStats.empty(K)
    )
    assert list(stats.buckets) == [UNDATED]
    assert stats.get_total() == plain
    assert stats.histogram == PriorityHistogram.empty().update(np.array([sentence.priority for sentence in some]))


def test_many_sentences_at_once_are_the_same_as_one_by_one() -> None:
    some = [Sentence(i, 40, DAYS[4]) for i in range(20)]
    probs, given = (np.concatenate(parts) for parts in zip(*(sentence.words() for sentence in some), strict=True))
    smoothed = [sentence.words()[0] if sentence.smoothed is None else sentence.smoothed for sentence in some]
    bulk = RunningStats.empty(K).update(
        probs,
        given,
        day=DAYS[4],
        priority=np.array([sentence.priority for sentence in some]),
        smoothed=np.concatenate(smoothed),
    )
    assert bulk == taught(some)


def test_priorities_are_optional() -> None:
    stats = RunningStats.empty(K).update(*Sentence(1, 4, "").words())
    assert stats.histogram.total == 0
    assert stats.get_total().n_words == 4


def test_days_beyond_the_window_are_forgotten() -> None:
    stats = taught([Sentence(1, 3, "2024-02-27"), Sentence(2, 3, "2024-02-28"), Sentence(3, 3, "2024-03-01")], 2)
    assert sorted(stats.buckets) == ["2024-02-28", "2024-03-01"]
    assert stats == Sentence(3, 3, "2024-03-01").add_to(taught([Sentence(2, 3, "2024-02-28")], 2)).merge(
        RunningStats.empty(K).update(*Sentence(1, 0, "").words(), priority=Sentence(1, 3, "").priority)
    )
    late = Sentence(4, 3, "2024-02-27").add_to(stats)
    assert late.buckets == stats.buckets
    assert late.histogram.total == 4


def test_undated_words_go_when_days_come() -> None:
    undated = taught([Sentence(1, 3, UNDATED)], 5)
    assert undated.get_total().n_words == 3
    assert undated.get_total(1).n_words == 3
    assert Sentence(2, 2, DAYS[3]).add_to(undated).get_total().n_words == 2
    both = Sentence(2, 2, DAYS[3]).add_to(undated.with_keep_days(None))
    assert both.get_total().n_words == 5
    assert both.get_total(3).n_words == 2
    assert both.with_keep_days(3).get_total().n_words == 2


def test_a_sentence_without_words_is_never_the_newest_day() -> None:
    stats = Sentence(2, 0, "2024-03-01").add_to(taught([Sentence(1, 3, "2023-12-30")], 1))
    assert list(stats.buckets) == ["2023-12-30"]
    assert stats.histogram.total == 2


def test_impossible_values_are_refused() -> None:
    empty = RunningStats.empty(K)
    for day in ("20240101", "2024-W01-1", "yesterday", "2024-02-30"):
        with pytest.raises(InvalidInput, match="is not a day"):
            Sentence(1, 2, day).add_to(empty)
    with pytest.raises(InvalidInput, match="`keep_days`"):
        RunningStats.empty(K, keep_days=0)
    with pytest.raises(InvalidInput, match="`window_days`"):
        empty.get_total(0)
    with pytest.raises(StateError, match="3 and of 2 classes"):
        empty.merge(RunningStats.empty(2))
    with pytest.raises(InvalidInput, match="3 classes"):
        empty.update(np.full((1, 2), 0.5), np.array([0]))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 2}, "newer labelwatch"),
        ({"version": None}, "no readable version"),
        ({"n_classes": 0}, "`n_classes`"),
        ({"n_classes": 2}, "has 3 classes where there should be 2"),
        ({"keep_days": 0}, "`keep_days`"),
        ({"keep_days": -3}, "`keep_days`"),
        ({"buckets": []}, "`buckets`"),
        ({"buckets": {"20240101": {}}}, "is not a day"),
        ({"buckets": {"2024-01-01": {"version": 1}}}, "lacks sums"),
        ({"histogram": {"version": 1, "bins": [[0, -1]]}}, "histogram"),
        ({"extra": 1}, "unknown fields extra"),
    ],
)
def test_a_broken_snapshot_is_refused_with_a_sentence(change: dict[str, Any], says: str) -> None:
    good = taught([Sentence(1, 5, UNDATED), Sentence(2, 5, DAYS[2])]).snapshot()
    assert RunningStats.restore(good).snapshot() == good
    with pytest.raises(StateError, match=says):
        RunningStats.restore(good | change)
    with pytest.raises(StateError, match="lacks buckets"):
        RunningStats.restore({name: value for name, value in good.items() if name != "buckets"})


def test_the_day_of_a_sentence() -> None:
    arrived = datetime(2024, 3, 1, 0, 30, tzinfo=UTC)
    assert to_bucket_day(None, arrived) == "2024-03-01"
    assert to_bucket_day(datetime(2024, 2, 28, 12, tzinfo=UTC), arrived) == "2024-02-28"
    assert to_bucket_day(datetime(2999, 1, 1, tzinfo=UTC), arrived) == "2024-03-01"
    assert to_bucket_day(datetime(2024, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=2))), arrived) == "2024-02-29"
    assert to_bucket_day(datetime(2024, 2, 29, 23), arrived) == "2024-02-29"  # noqa: DTZ001 - a naive time is what is tested
    assert to_bucket_day(None, datetime(2024, 2, 29, 23)) == "2024-02-29"  # noqa: DTZ001 - as above
    assert to_bucket_day(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5))), arrived) == "0001-01-01"
    assert to_bucket_day(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))), arrived) == "2024-03-01"
