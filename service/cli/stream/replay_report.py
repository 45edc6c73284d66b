"""Compares the flags of a replay with the live ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from service.cli.shared.tables import render_table
from service.contracts import Assessment
from service.log.dead_letters import read_dead_letters
from service.log.read import read_topic
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.log.protocol import Log
    from service.log.topics import Topics

FlaggedWords = dict[bytes, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ReplayComparison:
    """Counts over the messages that both the live worker and the replay have read."""

    messages: int
    flagged_both: int
    flagged_other_words: int  # flagged by both, at other words
    flagged_only_before: int
    flagged_only_now: int
    dead_letters_before: int
    dead_letters_now: int

    def to_text(self) -> str:
        rows = [
            [
                "flagged before and now",
                f"{self.flagged_both:,}",
                f"{self.flagged_other_words:,} of them at other words",
            ],
            ["flagged only before", f"{self.flagged_only_before:,}", ""],
            ["flagged only now", f"{self.flagged_only_now:,}", ""],
            ["dead letters before", f"{self.dead_letters_before:,}", ""],
            ["dead letters now", f"{self.dead_letters_now:,}", ""],
        ]
        return render_table(
            [f"of {pluralize(self.messages, 'message')} read by both", "", ""], rows, right_aligned=(1,)
        )


def compare_flags(log: Log, live: Topics, replayed: Topics, bounds: Mapping[int, tuple[int, int]]) -> ReplayComparison:
    """Compares the messages inside `bounds`: by partition, the first offset and the one after the last."""
    before, now = (_read_flagged_words(log, topics, bounds) for topics in (live, replayed))
    both = before.keys() & now.keys()
    return ReplayComparison(
        messages=sum(max(0, end - start) for start, end in bounds.values()),
        flagged_both=len(both),
        flagged_other_words=sum(before[key] != now[key] for key in both),
        flagged_only_before=len(before) - len(both),
        flagged_only_now=len(now) - len(both),
        dead_letters_before=_count_dead_letters(log, live, bounds),
        dead_letters_now=_count_dead_letters(log, replayed, bounds),
    )


def _read_flagged_words(log: Log, topics: Topics, bounds: Mapping[int, tuple[int, int]]) -> FlaggedWords:
    """The flagged words of each sentence by key, from its newest assessment."""
    flagged: FlaggedWords = {}
    for record in read_topic(log, topics.review):
        key = record.key or b""
        flagged.pop(key, None)
        if record.value is None:
            continue
        try:
            assessment = Assessment.model_validate_json(record.value)
        except ValidationError:
            continue
        position = assessment.position
        if assessment.reason != "flagged" or position is None:
            continue
        if _is_in_bounds(bounds, position.partition, position.offset):
            flagged[key] = tuple(flag.index for flag in assessment.flags)
    return flagged


def _count_dead_letters(log: Log, topics: Topics, bounds: Mapping[int, tuple[int, int]]) -> int:
    count = 0
    for letter in read_dead_letters(log, topics, None):
        *_, partition, offset = letter.origin.rsplit("-", 2)
        if partition.isdecimal() and offset.isdecimal() and _is_in_bounds(bounds, int(partition), int(offset)):
            count += 1
    return count


def _is_in_bounds(bounds: Mapping[int, tuple[int, int]], partition: int, offset: int) -> bool:
    start, end = bounds.get(partition, (0, 0))
    return start <= offset < end
