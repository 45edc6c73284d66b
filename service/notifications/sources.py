"""Follows the topics whose records are notified."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from service.errors import StreamError
from service.notifications.events import is_since

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.log.protocol import Follower, Log, Record


class SourceTopics:
    """One thread uses it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._followers: dict[str, Follower] = {}

    def read_new(
        self, topic: str, positions: Mapping[int, int] | None, *, since_ms: int
    ) -> tuple[list[Record], dict[int, int]]:
        """The records from `positions` on, and the positions after them.

        Without positions, those are new that were written since `since_ms`.
        """
        follower = self._followers.get(topic)
        if follower is None:
            follower = self._followers[topic] = self._log.follow(topic)
        start_ms = 0 if positions is not None else since_ms
        ends, new = dict(positions or {}), []
        while True:
            records = follower.poll()
            for record in records:
                if record.offset >= ends.get(record.partition, 0):
                    ends[record.partition] = record.offset + 1
                    if is_since(record.timestamp_ms, start_ms):
                        new.append(record)
            if not records and follower.caught_up:
                return new, ends

    def close(self) -> None:
        """The topics are read from their beginning again."""
        followers, self._followers = list(self._followers.values()), {}
        for follower in followers:
            with suppress(StreamError):
                follower.close()
