from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given as example_of
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.errors import InvalidInput, StateError
from service.scoring.confident import compute_thresholds, sum_agreeing_by_class, sum_by_class
from service.statistics import SCALE, ClassStats
from service.statistics.class_stats import PROBABILITY_TOLERANCE

Words = tuple[NDArray[Any], NDArray[Any]]


def words(seed: int, n: int, k: int = 4, dtype: str = "float64") -> Words:
    """Random rows: saturated ones, ties and one-hot rows among them."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(k, 0.3), n)
    one_hot = rng.random(n) < 0.2
    probs[one_hot] = np.eye(k)[rng.integers(0, k, n)[one_hot]]
    probs[rng.random(n) < 0.1] = 1 / k
    return probs.astype(dtype), rng.integers(0, k, n)


def one_by_one(stats: ClassStats, probs: NDArray[Any], given: NDArray[Any]) -> ClassStats:
    for i in range(len(given)):
        stats = stats.update(probs[i : i + 1], given[i : i + 1])
    return stats


def by_hand(probs: NDArray[Any], given: NDArray[Any], k: int) -> ClassStats:
    """The definition, in plain Python."""
    sums, counts, agree_sums, agree_counts = [0] * k, [0] * k, [0] * k, [0] * k
    for row, label in zip(probs.tolist(), given.tolist(), strict=True):
        parts = round(row[label] * SCALE)
        sums[label] += parts
        counts[label] += 1
        if row.index(max(row)) == label:
            agree_sums[label] += parts
            agree_counts[label] += 1
    return ClassStats(tuple(sums), tuple(counts), tuple(agree_sums), tuple(agree_counts))


def test_the_sums_are_those_of_the_words() -> None:
    probs = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.5, 0.5]])
    stats = ClassStats.empty(2).update(probs, np.array([0, 0, 0, 1]))
    assert stats.sums == (3 * SCALE // 2, SCALE // 2)
    assert stats.counts == (3, 1)
    assert stats.agree_sums == (5 * SCALE // 4, 0)  # the first index wins the tie
    assert stats.agree_counts == (2, 0)
    assert stats.n_words == 4


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("n", [1, 15, 63, 64, 65, 129, 700])
def test_every_path_gives_the_same_bits(n: int, dtype: str) -> None:
    probs, given = words(n, n, dtype=dtype)
    expected = by_hand(probs, given, 4)
    empty = ClassStats.empty(4)
    assert empty.update(probs, given) == expected
    assert one_by_one(empty, probs, given) == expected
    assert empty.update(probs, given.astype("int8")) == expected


def test_more_words_than_one_sum_can_hold_are_added_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.statistics.class_stats._MAX_CHUNK_WORDS", 150)
    probs, given = words(9, 700)
    assert ClassStats.empty(4).update(probs, given) == by_hand(probs, given, 4)


@settings(deadline=None, max_examples=60)
@example_of(st.integers(0, 10**6), st.lists(st.integers(0, 200), max_size=6))
def test_any_split_into_batches_and_partitions_ends_in_the_same_bits(seed: int, sizes: list[int]) -> None:
    probs, given = words(seed, sum(sizes))
    whole = by_hand(probs, given, 4)
    pieces = list(zip(np.split(probs, np.cumsum(sizes)), np.split(given, np.cumsum(sizes)), strict=True))
    running = ClassStats.empty(4)
    for piece in pieces:
        running = running.update(*piece)
    partitions = [ClassStats.empty(4), ClassStats.empty(4), ClassStats.empty(4)]
    for i, piece in enumerate(pieces):
        partitions[(seed + i) % 3] = partitions[(seed + i) % 3].update(*piece)
    merged = partitions[2].merge(partitions[0].merge(partitions[1]))
    assert running == merged == whole
    assert (
        running.compute_thresholds().tobytes()
        == merged.compute_thresholds().tobytes()
        == whole.compute_thresholds().tobytes()
    )


huge = st.integers(0, 2**90)
any_stats = st.builds(ClassStats, *[st.tuples(huge, huge, huge)] * 4)


@settings(deadline=None)
@example_of(any_stats, any_stats, any_stats)
def test_merge_is_associative_and_commutative(a: ClassStats, b: ClassStats, c: ClassStats) -> None:
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(ClassStats.empty(3)) == a
    assert [*a.merge(b).sums] == [x + y for x, y in zip(a.sums, b.sums, strict=True)]


def test_update_changes_nothing() -> None:
    probs, given = words(1, 20)
    empty = ClassStats.empty(4)
    kept = (probs.copy(), given.copy())
    assert not empty.update(probs, given).is_empty
    assert empty.is_empty
    assert empty == ClassStats.empty(4)
    assert (probs == kept[0]).all()
    assert (given == kept[1]).all()
    assert empty.update(probs[:0], given[:0]) == empty


def test_the_thresholds_are_those_of_one_batch_pass() -> None:
    probs, given = words(3, 500)
    given[given == 2] = 1
    stats = ClassStats.empty(4).update(probs, given)
    np.testing.assert_allclose(
        stats.compute_thresholds(), compute_thresholds(*sum_by_class(probs, given)), rtol=0, atol=1e-12
    )
    assert stats.compute_thresholds()[2] == 2.0
    sums, counts = sum_agreeing_by_class(probs, given)
    np.testing.assert_allclose(np.array(stats.agree_sums) / SCALE, sums, rtol=0, atol=1e-9)
    assert stats.agree_counts == tuple(counts)


def test_means_with_and_without_a_prior() -> None:
    stats = ClassStats.empty(2).update(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0, 0]))
    assert stats.compute_given_means().tolist() == [0.5, 0.0]
    assert stats.compute_agreeing_means().tolist() == [0.75, 0.0]
    assert stats.compute_given_means(prior_words=2, prior_mean=0.25).tolist() == [0.375, 0.25]
    assert stats.compute_agreeing_means(prior_words=1, prior_mean=0.25).tolist() == [0.5, 0.25]
    assert stats.compute_given_means(prior_mean=0.5).tolist() == [0.5, 0.5]


@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("value", [np.nan, np.inf, -0.1, 1 + 2 * PROBABILITY_TOLERANCE])
def test_a_probability_that_is_none_is_refused(n: int, value: float) -> None:
    probs, given = words(0, n)
    probs[3, given[3]] = value
    with pytest.raises(InvalidInput) as caught:
        ClassStats.empty(4).update(probs, given)
    assert (caught.value.word, caught.value.field) == (3, "probs")


@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("label", [-1, 4])
def test_a_label_that_is_no_class_is_refused(n: int, label: int) -> None:
    probs, given = words(0, n)
    given[4] = label
    with pytest.raises(InvalidInput, match=f"label {label}") as caught:
        ClassStats.empty(4).update(probs, given)
    assert (caught.value.word, caught.value.field) == (4, "given")


def test_shapes_and_types_that_dont_fit_are_refused() -> None:
    probs, given = words(0, 4)
    empty = ClassStats.empty(4)
    with pytest.raises(InvalidInput, match="4 classes"):
        empty.update(probs[:, :3], given)
    with pytest.raises(InvalidInput, match="4 classes"):
        empty.update(probs[0], given)
    with pytest.raises(InvalidInput, match="for 4 words"):
        empty.update(probs, given[:3])
    for kind in ("float64", "bool"):
        with pytest.raises(InvalidInput, match="not integers"):
            empty.update(probs, given.astype(kind))
    with pytest.raises(InvalidInput, match="at least one class"):
        ClassStats.empty(0)
    with pytest.raises(StateError, match="4 and of 3 classes"):
        empty.merge(ClassStats.empty(3))


def test_a_probability_a_little_over_one_is_learned_and_restored() -> None:
    stats = ClassStats.empty(1).update(np.full((200, 1), 1 + PROBABILITY_TOLERANCE), np.zeros(200, dtype=np.intp))
    assert ClassStats.restore(stats.snapshot()) == stats


@settings(deadline=None, max_examples=40)
@example_of(st.integers(0, 10**6), st.integers(0, 300), st.integers(0, 70))
def test_a_snapshot_comes_back_to_the_bit(seed: int, n: int, doublings: int) -> None:
    stats = ClassStats.empty(4).update(*words(seed, n))
    for _ in range(min(doublings, 40)):
        stats = stats.merge(stats)
    assert ClassStats.restore(json.loads(json.dumps(stats.snapshot()))) == stats


def good() -> dict[str, Any]:
    probs = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5]])
    snapshot: dict[str, Any] = ClassStats.empty(2).update(probs, np.array([0, 0, 1])).snapshot()
    assert ClassStats.restore(snapshot).counts == (2, 1)
    return snapshot


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 3, "min_reader": 3}, "version 3, which a newer labelwatch wrote"),
        ({"version": 0}, "no readable version"),
        ({"version": True}, "no readable version"),
        ({"version": "1"}, "no readable version"),
        ({"sums": None}, "`sums` should be a list"),
        ({"counts": [2, -1]}, "not negative"),
        ({"counts": [2.0, 1]}, "integers"),
        ({"counts": [True, 1]}, "integers"),
        ({"counts": [2]}, "counts 1"),
        ({"sums": [], "counts": [], "agree_sums": [], "agree_counts": []}, "one entry per class"),
        ({"counts": [2**53 + 1, 1]}, "can't be real"),
        ({"counts": [0, 1]}, "class 0 contradict"),
        ({"sums": [3 * SCALE, SCALE // 2]}, "class 0 contradict"),
        ({"sums": [0, SCALE // 2]}, "class 0 contradict"),
        ({"agree_counts": [1, 2]}, "class 1 contradict"),
        ({"agree_sums": [2 * SCALE, 0]}, "class 0 contradict"),
        ({"colour": 1}, "unknown fields colour"),
    ],
)
def test_a_broken_snapshot_is_refused_with_a_sentence(change: dict[str, Any], says: str) -> None:
    with pytest.raises(StateError, match=says):
        ClassStats.restore(good() | change)


def test_a_snapshot_that_is_none_is_refused() -> None:
    with pytest.raises(StateError, match="should be an object, it is list"):
        ClassStats.restore([1])
    snapshot = good()
    del snapshot["agree_sums"]
    with pytest.raises(StateError, match="lacks agree_sums"):
        ClassStats.restore(snapshot)
    del snapshot["version"]
    with pytest.raises(StateError, match="no readable version"):
        ClassStats.restore(snapshot)


@settings(deadline=None)
@example_of(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 80), st.booleans()), min_size=1, max_size=6))
def test_smoothed_statistics_don_t_depend_on_order_or_merges(parts: list[tuple[int, int, bool]]) -> None:
    """Sentences that memory changed and others, one after the other, each merged, and backwards."""
    in_order, merged = ClassStats.empty(4), ClassStats.empty(4)
    expected, raw = ClassStats.empty(4), ClassStats.empty(4)
    for seed, n, is_smoothed in parts:
        probs, given = words(seed, n)
        smoothed = words(seed + 100, n)[0] if is_smoothed else None
        in_order = in_order.update(probs, given, smoothed=smoothed)
        merged = ClassStats.empty(4).update(probs, given, smoothed=smoothed).merge(merged)
        raw = raw.update(probs, given)
        expected = expected.update(probs if smoothed is None else smoothed, given)
    assert in_order == merged
    assert in_order.get_smoothed() == expected
    assert (in_order.smoothed is None) is not any(is_smoothed for _, _, is_smoothed in parts)
    assert (in_order.sums, in_order.agree_counts) == (raw.sums, raw.agree_counts)
    assert ClassStats.restore(json.loads(json.dumps(in_order.snapshot()))) == in_order


def test_smoothed_statistics_of_other_words_are_refused() -> None:
    probs, given = words(1, 9)
    snapshot = ClassStats.empty(4).update(probs, given, smoothed=words(2, 9)[0]).snapshot()
    fewer = ClassStats.empty(4).update(probs[1:], given[1:])
    with pytest.raises(StateError, match="`smoothed` should be the statistics of the same words"):
        ClassStats.restore({**snapshot, "smoothed": fewer.snapshot()})
    with pytest.raises(StateError, match="`smoothed` should be the statistics of the same words"):
        ClassStats.restore({**snapshot, "smoothed": snapshot})
