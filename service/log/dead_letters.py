"""Dead letters: messages that could not be assessed, with the reason, and how they are sent to the input topic again.

A message that is sent again names its dead letter in a header. The input topic itself says so what was sent again, and
nothing can disagree with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from service.log.codec import ERROR_HEADER_PREFIX, build_sentence_message, get_header
from service.log.protocol import Output
from service.log.read import read_topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.contracts import LabelledSentence
    from service.log.codec import RequestOrigin
    from service.log.protocol import Headers, Log, Record
    from service.log.topics import Topics

REASON_HEADERS: Final = frozenset(
    f"{ERROR_HEADER_PREFIX}.{name}"
    for name in ("topic", "partition", "offset", "stage", "exception.class.name", "exception.message")
)
# Names the dead letter that a message was, so that no letter is sent twice and learned from twice.
REPLAY_HEADER: Final = "labelwatch-replay-of"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the original message and the reason."""

    record: Record

    @property
    def stage(self) -> str:
        return self.get_error_header("stage") or "unknown"

    @property
    def reason(self) -> str:
        return self.get_error_header("exception.message") or "no reason was given"

    @property
    def origin(self) -> str:
        topic, partition, offset = (self.get_error_header(name) or "?" for name in ("topic", "partition", "offset"))
        return f"{topic}-{partition}-{offset}"

    @property
    def position(self) -> str:
        return f"{self.record.topic}-{self.record.partition}-{self.record.offset}"

    def get_error_header(self, name: str) -> str | None:
        # The last one: the producer may have sent headers with the same names.
        return get_header(self.record.headers[::-1], f"{ERROR_HEADER_PREFIX}.{name}")

    @property
    def original_headers(self) -> Headers:
        """The headers without those of the reason, which were appended."""
        headers = self.record.headers
        for _ in REASON_HEADERS:
            if headers and headers[-1][0] in REASON_HEADERS:
                headers = headers[:-1]
        return tuple((name, value) for name, value in headers if name != REPLAY_HEADER)

    def build_replay_message(self, topic: str) -> Output:
        """The original message, byte for byte."""
        return Output(topic, self.record.key, self.record.value, (*self.original_headers, self._mark))

    def build_corrected_message(self, topic: str, sentence: LabelledSentence, origin: RequestOrigin) -> Output:
        """The sentence that somebody made of the message."""
        message = build_sentence_message(topic, sentence, origin=origin)
        return Output(topic, message.key, message.value, (*message.headers, self._mark))

    @property
    def _mark(self) -> tuple[str, bytes]:
        return REPLAY_HEADER, self.position.encode()


def get_replayed_position(record: Record) -> str | None:
    """The dead letter that a record of the input topic was."""
    return get_header(record.headers, REPLAY_HEADER)


def read_dead_letters(log: Log, topics: Topics, stage: str | None = None) -> Iterator[DeadLetter]:
    """Oldest first."""
    for record in read_topic(log, topics.dead_letters):
        letter = DeadLetter(record)
        if stage is None or letter.stage == stage:
            yield letter


def read_replayed_positions(log: Log, topics: Topics) -> set[str]:
    """The dead letters that are in the input topic again."""
    marks = map(get_replayed_position, read_topic(log, topics.sentences))
    return {mark for mark in marks if mark is not None}
