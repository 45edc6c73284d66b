"""Records that can't be read: which messages of the input are damaged, and which are only dead letters.

Anybody may send anything to the input topic. What no worker could read is a dead letter, and its message in the input is as
it was sent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from service.errors import StateError
from service.log.codec import parse_position, parse_position_key
from service.log.dead_letters import DeadLetter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.log.protocol import Record, RecordPosition


class UnreadableRecord(NamedTuple):
    """A record that should hold a message of its topic and can't be read."""

    topic: str
    position: RecordPosition
    problem: str

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.position[0]}-{self.position[1]}"

    def __str__(self) -> str:
        return f"{self.name}: {self.problem}"


def select_damaged_messages(
    messages: Iterable[UnreadableRecord], *, dead_letters: Iterable[Record], state: Iterable[Record]
) -> list[UnreadableRecord]:
    """The messages of the input that a worker has read before, and that are no dead letters: it could read them.

    `dead_letters`, `state`: the records of these topics. A message that no worker has read yet becomes a dead letter.
    """
    next_offsets: dict[int, int] = {}
    for record in state:
        with suppress(StateError):  # it is no position
            next_offsets[parse_position_key(record.key or b"")] = parse_position(record.value or b"")
    read = {each.name: each for each in messages if each.position[1] < next_offsets.get(each.position[0], 0)}
    if read:
        for letter in map(DeadLetter, dead_letters):
            read.pop(letter.origin, None)
    return list(read.values())
