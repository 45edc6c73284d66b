"""The simulation of many workers: what must hold in every run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.settings.kafka import KafkaSettings
from tests.bench.scale.costs import Costs
from tests.bench.scale.group import Group, assign_ranges
from tests.bench.scale.load import Load
from tests.bench.scale.measures import Measures
from tests.bench.scale.outlook import OUTLOOKS, Outlook, simulate
from tests.bench.scale.simulator import Event, Simulation

SCALING_PAGE = Path(__file__).resolve().parents[3] / "docs" / "scaling.md"
COSTS = Costs(
    sentence_s=0.01,
    batch_s=0.01,
    commit_s=0.02,
    state_record_s=0.0,
    state_records=1.0,
    join_s=0.2,
    restore_s=0.1,
    restore_partition_s=0.05,
    session_timeout_s=6.0,
    max_batch=64,
)


def start_workers(count: int) -> list[Event]:
    return [Event(-30.0, "start", worker) for worker in range(count)]


class CommitList(Measures):
    """Keeps every commit. The simulation itself refuses those of a worker that does not own the partition."""

    def __init__(self, load: Load) -> None:
        super().__init__(load)
        self.commits: list[tuple[int, int, int]] = []

    def count_commit(self, partition: int, start: int, end: int, now: float) -> None:
        self.commits.append((partition, start, end))
        super().count_commit(partition, start, end, now)


@st.composite
def draw_changes(draw: st.DrawFn) -> tuple[int, list[Event]]:
    """Workers of which some stop or crash and come back; the first one always runs."""
    workers = draw(st.integers(1, 6))
    events = start_workers(workers)
    for worker in range(1, workers):
        at = draw(st.floats(0.0, 8.0))
        change = draw(st.sampled_from(["none", "stop", "crash"]))
        if change == "stop":
            events.append(Event(at, "stop", worker))
        elif change == "crash":
            events.append(Event(at, "crash", worker))
            if draw(st.booleans()):
                events.append(Event(at + draw(st.floats(0.1, 12.0)), "start", worker))
    joining = draw(st.integers(0, 3))
    return workers, events + [Event(draw(st.floats(0.0, 8.0)), "start", workers + each) for each in range(joining)]


@settings(deadline=None, max_examples=60)
@given(changes=draw_changes(), partitions=st.integers(1, 9), backlog=st.integers(0, 300), seed=st.integers(0, 99))
def test_every_sentence_is_committed_once_and_in_order(
    changes: tuple[int, list[Event]], partitions: int, backlog: int, seed: int
) -> None:
    _, events = changes
    load = Load(partitions, backlog=backlog, rate=5.0, until=5.0)
    costs = replace(COSTS, sentence_cv=0.7)
    measures = CommitList(load)
    simulation = Simulation(costs, load, events, horizon=10_000.0, seed=seed, measures=measures)
    simulation.run()
    assert measures.sentences == load.total == sum(simulation.committed)
    for partition in range(partitions):
        spans = [(start, end) for number, start, end in measures.commits if number == partition]
        places = [place for start, end in spans for place in range(start, end)]
        assert places == list(range(simulation.committed[partition]))


@given(partitions=st.integers(0, 200), members=st.sets(st.integers(0, 500), min_size=1, max_size=60))
def test_a_partition_has_one_owner_and_shares_are_even(partitions: int, members: set[int]) -> None:
    found = assign_ranges(partitions, sorted(members))
    owned = [partition for each in found.values() for partition in each]
    assert sorted(owned) == list(range(partitions))
    sizes = [len(found[member]) for member in members]
    assert max(sizes) - min(sizes) <= 1


def test_one_worker_needs_the_time_of_its_batches() -> None:
    costs = replace(COSTS, initial_batch=64)
    measures = Simulation(costs, Load(1, backlog=640), start_workers(1)).run()
    assert measures.batches == 10
    assert measures.last_commit_at == pytest.approx(640 * 0.01 + 10 * (0.01 + 0.02))


def test_two_workers_need_half_the_time_of_one() -> None:
    load = Load(4, backlog=3_200)
    one, two = (Simulation(COSTS, load, start_workers(workers)).run() for workers in (1, 2))
    assert one.last_commit_at / two.last_commit_at == pytest.approx(2.0, rel=0.02)


def test_workers_beyond_the_partitions_wait() -> None:
    load = Load(2, backlog=640)
    two, five = (Simulation(COSTS, load, start_workers(workers)).run() for workers in (2, 5))
    assert five.last_commit_at == pytest.approx(two.last_commit_at)


def test_partitions_of_a_crashed_worker_stand_still_for_the_session_timeout() -> None:
    events = [*start_workers(2), Event(2.0, "crash", 1)]
    measures = Simulation(COSTS, Load(2, backlog=2_000), events).run()
    assert COSTS.session_timeout_s < measures.longest_standstill_s < COSTS.session_timeout_s + 4.0
    assert len(measures.rebalances) == 2


def test_a_worker_that_stops_leaves_without_a_time_out() -> None:
    events = [*start_workers(2), Event(2.0, "stop", 1)]
    measures = Simulation(COSTS, Load(2, backlog=2_000), events).run()
    assert measures.longest_standstill_s < COSTS.session_timeout_s


def test_a_rebalance_waits_for_the_longest_batch() -> None:
    slow = replace(COSTS, sentence_s=0.05, initial_batch=64, heartbeat_s=0.0)  # batches of 3.2 s
    events = [*start_workers(1), Event(0.1, "start", 1)]
    measures = Simulation(slow, Load(2, backlog=640), events).run()
    assert measures.rebalances[-1] == pytest.approx(0.05 * 64 + 0.03 - 0.1 + slow.join_s, abs=0.01)


def test_state_of_other_workers_costs_time() -> None:
    load = Load(20, backlog=1_000)
    free, read = (
        Simulation(replace(COSTS, state_record_s=seconds), load, start_workers(20)).run() for seconds in (0.0, 0.01)
    )
    assert free.reading_share == 0.0
    assert read.reading_share > 0.1
    assert read.last_commit_at > 1.1 * free.last_commit_at


def test_a_single_worker_reads_no_state() -> None:
    costs = replace(COSTS, state_record_s=1.0)
    assert Simulation(costs, Load(4, backlog=100), start_workers(1)).run().reading_s == 0.0


def test_equal_seeds_give_equal_runs() -> None:
    costs = replace(COSTS, sentence_cv=0.7)
    events = [*start_workers(3), Event(1.0, "crash", 2)]
    ends = [Simulation(costs, Load(6, backlog=500), events, seed=seed).run().last_commit_at for seed in (1, 1, 2)]
    assert ends[0] == ends[1] != ends[2]


def test_the_horizon_ends_a_run_that_can_not_keep_up() -> None:
    measures = Simulation(COSTS, Load(1, rate=1_000.0, until=100.0), start_workers(1), horizon=10.0).run()
    assert measures.ended_at == 10.0
    assert 0 < measures.sentences < 10_000


@pytest.mark.parametrize("change", ["stop", "crash"])
def test_a_change_of_a_worker_that_does_not_run_is_an_error(change: str) -> None:
    event = Event(1.0, change, 7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="worker 7 does not run"):
        Simulation(COSTS, Load(1, backlog=10_000), [*start_workers(1), event]).run()


def test_a_worker_outside_of_the_group_can_not_join() -> None:
    with pytest.raises(ValueError, match="no member"):
        Group(3).join(1)


def test_arrivals_are_counted_when_they_are_due() -> None:
    load = Load(3, backlog=2, rate=4.0, until=10.0)
    for partition in range(3):
        for number in (0, 2, 5, 20):
            at = load.find_arrival(partition, number)
            assert load.count_arrived(partition, at + 1e-9) > number
            assert at == 0.0 or load.count_arrived(partition, at - 1e-6) <= number


@given(partitions=st.integers(1, 12), each=st.integers(0, 400), until=st.floats(0.1, 20.0))
def test_a_sentence_is_due_if_and_only_if_it_arrives(partitions: int, each: int, until: float) -> None:
    load = Load(partitions, rate=each / until, until=until)
    for partition in range(partitions):
        count = load.count_arrived(partition, until)
        assert load.find_arrival(partition, count) == math.inf
        assert count == 0 or load.find_arrival(partition, count - 1) <= until


def test_the_measured_costs_can_be_simulated() -> None:
    row = simulate(Costs.read(), Outlook(20, crashes=1), seconds=60.0, change_at=10.0)
    assert row["committed_per_s"] == pytest.approx(row["offered_per_s"], rel=0.5)
    assert row["standstill_s"] > Costs.read().session_timeout_s


def test_the_time_outs_are_those_of_the_service() -> None:
    kafka, costs = KafkaSettings.for_servers("localhost:9092"), Costs.read()
    assert costs.session_timeout_s * 1000 == kafka.session_timeout_ms
    assert costs.heartbeat_s * 1000 == kafka.heartbeat_interval_ms


def read_documented_outlooks() -> list[list[str]]:
    """The cells of the table of simulations, a row for each outlook."""
    text = SCALING_PAGE.read_text(encoding="utf-8")
    table = text.split("| workers | what |")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("outlook", [Outlook(4), Outlook(1_000, crashes=1)])
def test_the_docs_have_the_figures_of_the_simulation(outlook: Outlook) -> None:
    """Of the smallest simulation, and of one that follows from the session time-out. The others are as long."""
    documented = read_documented_outlooks()
    assert len(documented) == len(OUTLOOKS)
    workers, what, *figures = documented[OUTLOOKS.index(outlook)]
    assert (workers, what) == (f"{outlook.workers:,}", "one crashes" if outlook.crashes else "")
    row = simulate(Costs.read(), outlook)
    simulated = [
        row[name] for name in ("offered_per_s", "committed_per_s", "delay_p50_s", "delay_p99_s", "standstill_s")
    ]
    *numbers, share = (float(figure.split()[0].replace(",", "")) for figure in figures)
    assert numbers == pytest.approx(simulated, rel=0.005, abs=0.06)
    assert share == pytest.approx(100 * row["reading_share"], abs=0.6)


def test_costs_of_a_file_may_have_notes_and_must_not_be_negative(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({**COSTS.to_json(), "note": "x"}))
    assert Costs.read(path) == COSTS
    path.write_text(json.dumps({**COSTS.to_json(), "commit_s": -1}))
    with pytest.raises(ValueError, match="`commit_s`"):
        Costs.read(path)


def test_members_are_assigned_in_their_order() -> None:
    group = Group(4, order={0: 2.0, 1: 1.0})
    for worker in (0, 1):
        group.add(worker, 0.0)
    assert group.assign() == {1: range(2), 0: range(2, 4)}
