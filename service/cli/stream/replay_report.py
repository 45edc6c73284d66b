"""How the flags of a replay differ from the live ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from service.cli.shared.tables import table
from service.cli.stream.dead_letters import letters
from service.contracts import Assessment
from service.runtime.open_log import read_topic
from service.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.log.protocol import Stream
    from service.log.topics import Topics

Flagged = dict[bytes, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Differences:
    """Counts of sentences that both have read."""

    messages: int
    both: int
    other_words: int  # of both: flagged at other words
    only_before: int
    only_now: int
    dead_before: int
    dead_now: int

    def text(self) -> str:
        rows = [
            ["flagged before and now", f"{self.both:,}", f"{self.other_words:,} of them at other words"],
            ["flagged only before", f"{self.only_before:,}", ""],
            ["flagged only now", f"{self.only_now:,}", ""],
            ["dead letters before", f"{self.dead_before:,}", ""],
            ["dead letters now", f"{self.dead_now:,}", ""],
        ]
        return table([f"of {plural(self.messages, 'message')} that both have read", "", ""], rows, right=(1,))


def compare(log: Stream, live: Topics, replayed: Topics, bounds: Mapping[int, tuple[int, int]]) -> Differences:
    """Of the messages from `bounds` (by partition: from, up to) which were flagged, by either or by both."""
    before, now = (_flagged(log, topics, bounds) for topics in (live, replayed))
    both = before.keys() & now.keys()
    return Differences(
        messages=sum(max(0, end - start) for start, end in bounds.values()),
        both=len(both),
        other_words=sum(before[key] != now[key] for key in both),
        only_before=len(before) - len(both),
        only_now=len(now) - len(both),
        dead_before=_dead(log, live, bounds),
        dead_now=_dead(log, replayed, bounds),
    )


def _flagged(log: Stream, topics: Topics, bounds: Mapping[int, tuple[int, int]]) -> Flagged:
    """The flagged words of each sentence, by key, as its newest assessment has them."""
    found: Flagged = {}
    for record in read_topic(log, topics.review):
        key = record.key or b""
        found.pop(key, None)
        if record.value is None:
            continue
        try:
            said = Assessment.model_validate_json(record.value)
        except ValidationError:
            continue
        place = said.position
        if said.reason == "flagged" and place is not None and _within(bounds, place.partition, place.offset):
            found[key] = tuple(flag.index for flag in said.flags)
    return found


def _dead(log: Stream, topics: Topics, bounds: Mapping[int, tuple[int, int]]) -> int:
    count = 0
    for letter in letters(log, topics, None):
        *_, partition, offset = letter.origin.rsplit("-", 2)
        if partition.isdecimal() and offset.isdecimal() and _within(bounds, int(partition), int(offset)):
            count += 1
    return count


def _within(bounds: Mapping[int, tuple[int, int]], partition: int, offset: int) -> bool:
    start, end = bounds.get(partition, (0, 0))
    return start <= offset < end
