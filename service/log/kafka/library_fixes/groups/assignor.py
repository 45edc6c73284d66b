"""Assigns partitions to all members of a group with static and dynamic members.

Bug: `RangePartitionAssignor` groups the members with `itertools.groupby`, which expects them sorted by kind. They are not,
and a later run of one kind replaces the earlier one.
Symptom: some workers are members of the group and are never assigned a partition.
Remove it when: `test_every_worker_gets_its_share` passes with `RangePartitionAssignor`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.coordinator.assignors.range import RangePartitionAssignor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka.cluster import ClusterMetadata
    from kafka.protocol.consumer import ConsumerProtocolAssignment, JoinGroupResponse


class SortedRangeAssignor(RangePartitionAssignor):  # type: ignore[misc]  # the library has no type hints
    @classmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Sequence[JoinGroupResponse.JoinGroupResponseMember]
    ) -> dict[str, ConsumerProtocolAssignment]:
        static_members_first = sorted(members, key=lambda member: member.group_instance_id is None)
        assignment: dict[str, ConsumerProtocolAssignment] = super().assign(cluster, static_members_first)
        return assignment
