"""Drops the records that the fetcher holds for a partition that was paused.

Bug: the fetcher sets aside the parsed records of a paused partition. After `resume` it takes them up only while no other
partition's records are next in line, and fetches nothing for the partition until then.
Symptom: while other partitions have records, the resumed partition never delivers any.
Remove it when: `test_a_partition_that_is_paused_with_fetched_records_continues` passes without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition


def drop_paused_records(consumer: KafkaConsumer, topic_partition: TopicPartition) -> None:
    """To be called after a seek, which makes the records obsolete."""
    consumer._fetcher._paused_partition_records.pop(topic_partition, None)  # noqa: SLF001 - there is no public way
