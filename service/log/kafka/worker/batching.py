"""Chooses the messages of a batch."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka.consumer.fetcher import ConsumerRecord


def take_fairly(
    polled: Mapping[int, Sequence[ConsumerRecord]], max_bytes: int, *, last_served: int = -1
) -> tuple[dict[int, Sequence[ConsumerRecord]], dict[int, int]]:
    """Returns the messages that fit, at least one, and by partition the offset of the first message that did not.

    Partitions take turns, message by message, beginning after `last_served`: a partition with a backlog of long messages
    must not keep the others waiting until it is empty.
    """
    order = sorted(polled, key=lambda partition: (partition <= last_served, partition))
    counts = dict.fromkeys(order, 0)
    turns = deque(order)
    size = 0
    while turns:
        partition = turns.popleft()
        size += len(polled[partition][counts[partition]].value or b"")
        if size > max_bytes and any(counts.values()):
            break
        counts[partition] += 1
        if counts[partition] < len(polled[partition]):
            turns.append(partition)
    batch = {partition: polled[partition][:count] for partition, count in counts.items() if count}
    next_offsets = {
        partition: polled[partition][count].offset
        for partition, count in counts.items()
        if count < len(polled[partition])
    }
    return batch, next_offsets
