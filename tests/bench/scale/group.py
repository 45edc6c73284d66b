"""The consumer group: members, generations, and which member owns which partition.

It is that of Kafka's eager protocol. A rebalance waits until every member has asked to join again, which a member does only
between two batches; then all partitions are assigned anew, in ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STABLE, JOINING, SYNCING = "stable", "joining", "syncing"


@dataclass(slots=True)
class Group:
    """Members are numbers of workers."""

    partitions: int
    # Kafka sorts members by ids that are random: so the order of the numbers says nothing about who owns what.
    order: dict[int, float] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    joined: set[int] = field(default_factory=set)
    owners: dict[int, int] = field(default_factory=dict)
    generation: int = 0
    phase: str = STABLE
    began_at: float = 0.0

    def start_rebalance(self, now: float) -> None:
        if self.phase == STABLE:
            self.phase, self.began_at = JOINING, now
            self.joined.clear()

    def add(self, worker: int, now: float) -> None:
        self.members.add(worker)
        self.start_rebalance(now)
        self.joined.add(worker)

    def remove(self, worker: int, now: float) -> None:
        if worker not in self.members:
            return
        self.members.discard(worker)
        self.joined.discard(worker)
        self.start_rebalance(now)

    def join(self, worker: int) -> None:
        if worker not in self.members:
            raise ValueError(f"worker {worker} is no member of the group")
        self.joined.add(worker)

    @property
    def all_joined(self) -> bool:
        return self.phase == JOINING and self.joined == self.members

    def assign(self) -> dict[int, range]:
        """The partitions of each member of the next generation."""
        self.generation += 1
        self.phase = STABLE
        found = assign_ranges(
            self.partitions, sorted(self.members, key=lambda worker: (self.order.get(worker, 0.0), worker))
        )
        self.owners = {partition: worker for worker, owned in found.items() for partition in owned}
        return found


def assign_ranges(partitions: int, members: list[int]) -> dict[int, range]:
    """As Kafka's range assignor: the first members have one partition more where they can't be shared evenly."""
    if not members:
        return {}
    each, more = divmod(partitions, len(members))
    found, start = {}, 0
    for position, member in enumerate(members):
        count = each + (position < more)
        found[member] = range(start, start + count)
        start += count
    return found
