"""Continues a join that a poll did not finish.

Bug: a consumer that rejoins because the partitions of its topic changed clears the reason before the join is complete. If
the poll ends first, no later poll takes the join up again.
Symptom: the worker stays in the state "rebalancing", and so does its whole group.
Remove it when: `ConsumerCoordinator.need_rejoin` stays true until the join is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.structs import MemberState

if TYPE_CHECKING:
    from kafka import KafkaConsumer


def continue_join(consumer: KafkaConsumer) -> bool:
    """Whether a join is in progress. If so, the next poll continues it."""
    if consumer.group_metadata().state != MemberState.REBALANCING:
        return False
    consumer._coordinator.request_rejoin()  # noqa: SLF001 - there is no public way
    return True
