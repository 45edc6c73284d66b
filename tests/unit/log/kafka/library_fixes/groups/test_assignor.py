"""Partitions are assigned evenly to static and dynamic members in any order."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from service.log.kafka.library_fixes.groups.assignor import SortedRangeAssignor

TOPIC = "sentences"
KINDS = [*itertools.product(("fixed", None), repeat=3), ("fixed", None, "fixed", None, "fixed")]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("partitions", [1, 3, 4, 6, 12])
def test_every_worker_gets_its_share(kinds: tuple[str | None, ...], partitions: int) -> None:
    members = [
        SimpleNamespace(
            group_instance_id=kind and f"{kind}-{n}", member_id=f"member-{n}", metadata=SimpleNamespace(topics=[TOPIC])
        )
        for n, kind in enumerate(kinds)
    ]
    cluster = SimpleNamespace(partitions_for_topic=lambda _: set(range(partitions)))
    assignment = SortedRangeAssignor.assign(cluster, members)
    shares = [
        [partition for _, assigned in assignment[member.member_id].assigned_partitions for partition in assigned]
        for member in members
    ]
    assert sorted(itertools.chain(*shares)) == list(range(partitions))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
