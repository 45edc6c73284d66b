"""Sentences by day, from totals that grow."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from service.stream.state.arrivals import MAX_DAYS, ArrivalCounter, DailyArrivals
from service.stream.state.snapshot import StatsKey

NEWS = StatsKey("news", "key/0")


def at(day: int, hour: int = 12) -> int:
    return int(datetime(2024, 5, day, hour, tzinfo=UTC).timestamp() * 1000)


def test_what_comes_while_it_is_followed_is_of_its_day() -> None:
    arrivals = ArrivalCounter()
    arrivals.record(NEWS, 0, 100, at(1))
    arrivals.record(NEWS, 0, 103, at(1, 23))
    arrivals.record(NEWS, 0, 110, at(3, 0))
    assert arrivals.list_days("news") == (DailyArrivals("2024-05-01", 3, 100), DailyArrivals("2024-05-03", 7, 0))
    assert arrivals.list_days("other") == ()


def test_the_first_sentences_of_a_dataset_are_of_their_day_where_the_start_was_read() -> None:
    arrivals = ArrivalCounter()
    arrivals.record(NEWS, 0, 472, at(1), caught_up=True)
    arrivals.record(NEWS, 0, 480, at(2), caught_up=True)
    assert arrivals.list_days("news") == (DailyArrivals("2024-05-01", 472, 0), DailyArrivals("2024-05-02", 8, 0))


def test_each_partition_and_each_account_is_first_seen_on_its_own() -> None:
    arrivals = ArrivalCounter()
    arrivals.record(NEWS, 0, 10, at(1))
    arrivals.record(NEWS, 1, 20, at(2))
    arrivals.record(NEWS, 1, 21, at(2))
    arrivals.record(StatsKey("news", "key/1"), 0, 5, at(2))
    assert arrivals.list_days("news") == (DailyArrivals("2024-05-01", 0, 10), DailyArrivals("2024-05-02", 1, 25))


def test_only_the_newest_days_are_kept() -> None:
    arrivals = ArrivalCounter()
    for day in range(MAX_DAYS + 30):
        arrivals.record(NEWS, 0, day, 86_400_000 * day)
    found = arrivals.list_days("news")
    assert len(found) == MAX_DAYS
    assert found[-1].day == "1971-03-06"
    assert all(one.sentences == 1 for one in found)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 28)), max_size=40))
def test_nothing_is_lost_or_counted_twice(steps: list[tuple[int, int, int]]) -> None:
    arrivals, totals = ArrivalCounter(), [0, 0, 0]
    for partition, more, day in sorted(steps, key=lambda step: step[2]):
        totals[partition] += more
        arrivals.record(NEWS, partition, totals[partition], at(day))
    assert sum(one.sentences + one.by_then for one in arrivals.list_days("news")) == sum(totals)
