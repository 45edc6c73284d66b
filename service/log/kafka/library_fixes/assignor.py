"""Who reads which partition: ranges, over workers with and without a fixed identity alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.coordinator.assignors.range import RangePartitionAssignor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka.cluster import ClusterMetadata
    from kafka.protocol.consumer import ConsumerProtocolAssignment, JoinGroupResponse


class SortedRangeAssignor(RangePartitionAssignor):  # type: ignore[misc]  # the library tells no types
    """The library's ranges, told of the members in the order it takes for granted.

    It groups them by whether their identity is fixed, and forgets those of a group that is interrupted by one of the
    other kind: such workers would be members and never be given a partition.
    """

    @classmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Sequence[JoinGroupResponse.JoinGroupResponseMember]
    ) -> dict[str, ConsumerProtocolAssignment]:
        ordered = sorted(members, key=lambda member: member.group_instance_id is None)
        assigned: dict[str, ConsumerProtocolAssignment] = super().assign(cluster, ordered)
        return assigned
