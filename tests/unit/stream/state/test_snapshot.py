from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.contracts import DatasetSettings
from service.errors import StateError
from service.inference.model.folder import ModelFolder
from service.judging.judge import Judge
from service.statistics.arrivals import ArrivalCounts
from service.statistics.running import RunningStats
from service.stream.state.snapshot import ArrivalsRecord, StateRecord, StateSnapshot, StatsKey
from tests.support.tiny_models import make_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NEWS = StatsKey("news", "key/0")
N_CLASSES = 3
EMPTY = RunningStats.empty(N_CLASSES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder.load(make_model(tmp_path_factory.mktemp("tiny"), "wordpiece"))


def learn(stats: RunningStats, seed: int, *, day: str = "") -> RunningStats:
    rng, k = np.random.default_rng(seed), stats.n_classes
    return stats.update(rng.dirichlet([0.3] * k, 4), rng.integers(0, k, 4), day=day, priority=float(rng.random()))


def apply_records(snapshot: StateSnapshot, records: Iterable[StateRecord | ArrivalsRecord]) -> StateSnapshot:
    draft = snapshot.start_draft()
    for record in records:
        draft.apply(record)
    return draft.to_snapshot()


def clear_partition(snapshot: StateSnapshot, partition: int) -> StateSnapshot:
    draft = snapshot.start_draft()
    draft.clear_partition(partition)
    return draft.to_snapshot()


def sum_up(partitions: Mapping[int, RunningStats], empty: RunningStats) -> RunningStats:
    return reduce(RunningStats.merge, partitions.values(), empty)


@settings(deadline=None, max_examples=50)
@given(steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 10**6)), max_size=25))
def test_totals_are_the_sum_of_the_partitions_whatever_happened(
    folder: ModelFolder, steps: list[tuple[int, int, int]]
) -> None:
    judges = [Judge(folder, DatasetSettings(name=name)) for name in ("news", "sport")]
    empty = judges[0].create_empty_stats()
    snapshot = StateSnapshot()
    for partition, which, seed in steps:
        judge = judges[which]
        key = StatsKey.from_judge(judge)
        draft = snapshot.start_draft()
        if seed % 4 == 0:
            own = snapshot.get_partitions(key).get(partition, empty)
            snapshot = apply_records(snapshot, [StateRecord(partition, key, learn(own, seed))])
        elif seed % 4 == 1:
            draft.put_stats(judge, learn(draft.get_stats(judge), seed))
            draft.put_partition_stats(partition, judge, learn(draft.get_partition_stats(partition, judge), seed))
            snapshot = draft.to_snapshot()
        elif seed % 4 == 2:
            snapshot = apply_records(snapshot, [StateRecord(partition, key, None)])
        else:
            snapshot = apply_records(
                clear_partition(snapshot, partition), [StateRecord(partition, key, learn(empty, seed))]
            )
        for each in judges:
            assert snapshot.get_stats(each) == sum_up(snapshot.get_partitions(StatsKey.from_judge(each)), empty)
    assert snapshot.keys == {key for key in map(StatsKey.from_judge, judges) if snapshot.get_partitions(key)}
    assert snapshot.count_sentences() == sum(snapshot.get_stats(judge).histogram.total for judge in judges)


def test_a_draft_leaves_its_snapshot_as_it_was(folder: ModelFolder) -> None:
    judge = Judge(folder, DatasetSettings(name="news"))
    key = StatsKey.from_judge(judge)
    snapshot = apply_records(StateSnapshot(), [StateRecord(0, key, learn(judge.create_empty_stats(), 1))])
    before = snapshot.get_stats(judge)
    draft = snapshot.start_draft()
    draft.put_partition_stats(0, judge, learn(before, 2))
    draft.put_stats(judge, learn(before, 2))
    assert snapshot.get_stats(judge) is before
    assert snapshot.get_partitions(key) == {0: before}
    assert draft.get_stats(judge) == draft.to_snapshot().get_stats(judge) == learn(before, 2)


def test_a_draft_has_the_records_that_it_applied(folder: ModelFolder) -> None:
    judge = Judge(folder, DatasetSettings(name="news"))
    key, empty = StatsKey.from_judge(judge), judge.create_empty_stats()
    draft = StateSnapshot().start_draft()
    for partition in (0, 1):
        draft.apply(StateRecord(partition, key, learn(empty, partition)))
    assert draft.get_stats(judge) == learn(empty, 0).merge(learn(empty, 1))
    assert draft.get_partition_stats(1, judge) == learn(empty, 1)
    draft.clear_partition(1)
    assert draft.get_stats(judge) == draft.to_snapshot().get_stats(judge) == learn(empty, 0)
    assert draft.get_partition_stats(1, judge) == empty


def test_a_change_of_one_key_leaves_the_sums_of_the_others_alone() -> None:
    other = StatsKey("sport", "key/0")
    snapshot = apply_records(
        StateSnapshot(),
        [StateRecord(partition, key, learn(EMPTY, partition)) for key in (NEWS, other) for partition in range(3)],
    )
    before = {key: snapshot.get_total(key, None) for key in (NEWS, other)}
    snapshot = apply_records(snapshot, [StateRecord(0, NEWS, learn(EMPTY, 9))])
    assert snapshot.get_total(other, None) is before[other]
    assert snapshot.get_total(NEWS, None) != before[NEWS]
    snapshot = clear_partition(snapshot, 1)
    assert snapshot.get_total(other, None) == learn(EMPTY, 0).merge(learn(EMPTY, 2))
    assert StateSnapshot().get_total(NEWS, None) is None


def test_a_partition_without_state_takes_its_share_out_of_the_total() -> None:
    snapshot = apply_records(StateSnapshot(), [StateRecord(n, NEWS, learn(EMPTY, n)) for n in (1, 2)])
    assert clear_partition(snapshot, 1).get_total(NEWS, None) == learn(EMPTY, 2)
    assert clear_partition(clear_partition(snapshot, 1), 2).get_total(NEWS, None) is None


@pytest.mark.parametrize(("was", "now"), [(7, None), (7, 30), (30, 7), (None, 7)])
def test_an_idle_partition_with_an_older_setting_makes_the_others_forget_nothing(
    was: int | None, now: int | None
) -> None:
    """It is written again only when it learns again; until then it has the setting of its last batch."""
    probs, labels = np.array([[0.9, 0.1, 0.0]] * 4), np.zeros(4, np.intp)
    idle = RunningStats.empty(N_CLASSES, keep_days=was).update(probs, labels, day="2026-03-02" if was else "")
    busy = RunningStats.empty(N_CLASSES, keep_days=now).update(probs, labels, day="2026-03-08" if now else "")
    snapshot = apply_records(StateSnapshot(), [StateRecord(0, NEWS, idle), StateRecord(1, NEWS, busy)])
    total = snapshot.get_total(NEWS, now)
    assert total is not None
    assert total.keep_days == now
    expected = 8 if was is not None or now is None else 4  # a bucket without a day is older than any day
    assert total.get_total().counts[0] == expected


def test_forgetting_follows_the_setting_of_now_and_not_the_order_of_changes() -> None:
    """A shorter setting for a while loses only what the partitions were written with under it."""
    days = {0: "2026-01-01", 1: "2026-03-01"}
    snapshot = apply_records(
        StateSnapshot(),
        [
            StateRecord(n, NEWS, learn(RunningStats.empty(N_CLASSES, keep_days=90), n, day=day))
            for n, day in days.items()
        ],
    )
    words = [snapshot.get_total(NEWS, keep_days) for keep_days in (90, 7, 90)]
    assert [total.get_total().n_words for total in words if total is not None] == [8, 4, 8]


def test_statistics_of_another_number_of_classes_are_refused_and_change_nothing(folder: ModelFolder) -> None:
    snapshot = apply_records(StateSnapshot(), [StateRecord(0, NEWS, learn(EMPTY, 1))])
    draft = snapshot.start_draft()
    for partition in (0, 1):
        with pytest.raises(StateError, match="statistics of 2 classes where the key has 3 classes"):
            draft.apply(StateRecord(partition, NEWS, RunningStats.empty(2)))
    assert draft.to_snapshot() is snapshot
    judge = Judge(folder, DatasetSettings(name="news"))
    wrong = apply_records(snapshot, [StateRecord(0, StatsKey.from_judge(judge), learn(EMPTY, 1))])
    with pytest.raises(StateError, match=r"dataset news have 3 classes, its model has 9: run `labelwatch thresholds"):
        wrong.get_stats(judge)


def test_counts_of_arrivals_add_up_and_leave_with_their_partition() -> None:
    records = [
        ArrivalsRecord(0, "med", ArrivalCounts({"B-DRUG": 2}, waiting=2, next_offset=5)),
        ArrivalsRecord(1, "med", ArrivalCounts({"B-DRUG": 1}, waiting=1)),
    ]
    snapshot = apply_records(StateSnapshot(), records)
    assert snapshot.get_arrivals("med").total == ArrivalCounts({"B-DRUG": 3}, waiting=3)
    assert snapshot.get_arrivals("med").next_offsets == {0: 5, 1: 0}
    assert snapshot.datasets == {"med"}
    assert not snapshot.keys

    draft = snapshot.start_draft()
    counts = draft.get_partition_arrivals(1, "med")
    draft.put_arrivals(1, "med", counts.store())
    assert draft.get_arrivals("med").waiting == 4
    assert snapshot.get_arrivals("med").total.waiting == 3, "the snapshot stays as it was"

    remaining = clear_partition(draft.to_snapshot(), 0)
    assert remaining.get_arrivals("med").total == ArrivalCounts({"B-DRUG": 1}, waiting=2)
    assert apply_records(remaining, [ArrivalsRecord(1, "med", None)]).datasets == frozenset()
    assert StateSnapshot().get_arrivals("med").total == ArrivalCounts()
