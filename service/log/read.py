"""Reads a topic from its beginning to its present end."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Log, Record

POLL_INTERVAL_S = 0.05


def read_topic(log: Log, topic: str) -> Iterator[Record]:
    """Yields every record up to the end that the topic has now."""
    with closing(log.follow(topic)) as follower:
        while True:
            records = follower.poll()
            yield from records
            if follower.caught_up:
                return
            if not records:
                time.sleep(POLL_INTERVAL_S)


def read_compacted_topic(log: Log, topic: str) -> dict[bytes, Record]:
    """Returns the newest record of each key that is not deleted, in the topic's order."""
    newest: dict[bytes, Record] = {}
    for record in read_topic(log, topic):
        if record.key is None:
            continue
        newest.pop(record.key, None)
        if record.value is not None:
            newest[record.key] = record
    return newest
