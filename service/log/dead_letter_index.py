"""An index of the newest dead letters, for REST: why each could not be assessed, and whether it was sent again.

It follows the topic of dead letters and the headers of the input topic, in a thread that starts when the index is first
used: most processes never need it. The bytes of a letter are read from the log when somebody looks at it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic_core import from_json

from service.contracts import is_dataset_name
from service.errors import StreamError
from service.log.dead_letters import DeadLetter, get_replayed_position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from service.log.protocol import Follower, Log, RecordPosition
    from service.log.topics import Topics

logger = logging.getLogger(__name__)

MAX_LETTERS: Final = 10_000
MAX_PREVIEW_CHARS: Final = 200
MAX_REASON_CHARS: Final = 1_000
POLL_INTERVAL_S: Final = 0.2
RETRY_INTERVAL_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class LetterSummary:
    """A dead letter without its bytes. `dataset` and `sentence_id` are None if the message does not say them."""

    position: RecordPosition
    timestamp_ms: int
    stage: str
    reason: str
    origin: str
    dataset: str | None
    sentence_id: str | None
    size: int
    preview: str | None

    @property
    def order(self) -> tuple[int, int, int]:
        return self.timestamp_ms, *self.position

    @classmethod
    def build(cls, letter: DeadLetter) -> LetterSummary:
        record = letter.record
        dataset, sentence_id = find_names(record.value)
        preview = None if record.value is None else record.value[: 4 * MAX_PREVIEW_CHARS].decode(errors="replace")
        return cls(
            position=record.position,
            timestamp_ms=record.timestamp_ms,
            stage=letter.stage,
            reason=letter.reason[:MAX_REASON_CHARS],
            origin=letter.origin,
            dataset=dataset,
            sentence_id=sentence_id,
            size=len(record.value or b""),
            preview=None if preview is None else preview[:MAX_PREVIEW_CHARS],
        )


class DeadLetterIndex:
    """The newest `MAX_LETTERS` letters. One thread follows the log; any thread may ask."""

    def __init__(self, log: Log, topics: Topics, *, max_letters: int = MAX_LETTERS) -> None:
        self._log = log
        self._topics = topics
        self._max_letters = max_letters
        self._lock = threading.Lock()
        self._letters: dict[RecordPosition, LetterSummary] = {}
        self._replayed: set[str] = set()
        self._dropped = 0
        self._followers: dict[str, Follower] = {}
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._caught_up = threading.Event()
        self.error: str | None = None

    # -- the thread ------------------------------------------------------------------------------------------------

    def start(self, timeout_s: float) -> bool:
        """Starts the thread, if it does not run, and waits until it has read everything once. Returns whether it has."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="dead-letters", daemon=True)
                self._thread.start()
        return self._caught_up.wait(timeout_s)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                n_records = self.step()
            except StreamError as error:
                if self.error is None:
                    logger.warning("dead letters can't be read: %s", error)
                self.error = str(error)
                self._close_followers()
                self._stop.wait(RETRY_INTERVAL_S)
                continue
            self.error = None
            if not n_records:
                self._stop.wait(POLL_INTERVAL_S)
        self._close_followers()

    def step(self) -> int:
        """Applies the new records of both topics and returns their number."""
        topics = (self._topics.dead_letters, self._topics.sentences)
        letters, sentences = (self._get_follower(topic) for topic in topics)
        records, marked = letters.poll(), sentences.poll()
        summaries = [LetterSummary.build(DeadLetter(record)) for record in records]
        marks = {mark for mark in map(get_replayed_position, marked) if mark is not None}
        with self._lock:
            self._letters.update((summary.position, summary) for summary in summaries)
            while len(self._letters) > self._max_letters:
                del self._letters[next(iter(self._letters))]
                self._dropped += 1
            self._replayed |= marks
        if letters.caught_up and sentences.caught_up:
            self._caught_up.set()
        return len(records) + len(marked)

    def _get_follower(self, topic: str) -> Follower:
        follower = self._followers.get(topic)
        if follower is None:
            follower = self._followers[topic] = self._log.follow(topic)
        return follower

    def _close_followers(self) -> None:
        followers, self._followers = self._followers, {}
        for follower in followers.values():
            with suppress(StreamError):
                follower.close()

    # -- what can be asked -----------------------------------------------------------------------------------------

    @property
    def dropped(self) -> int:
        """How many older letters are only in the log."""
        return self._dropped

    def list_letters(self) -> list[LetterSummary]:
        """The newest first."""
        with self._lock:
            letters = list(self._letters.values())
        return sorted(letters, key=lambda letter: letter.order, reverse=True)

    def find(self, position: RecordPosition) -> LetterSummary | None:
        with self._lock:
            return self._letters.get(position)

    def is_replayed(self, position: RecordPosition) -> bool:
        with self._lock:
            return self._format(position) in self._replayed

    def mark_replayed(self, position: RecordPosition) -> bool:
        """Marks a letter that is about to be sent, before the log shows it. Returns False if it was marked already."""
        with self._lock:
            mark = self._format(position)
            if mark in self._replayed:
                return False
            self._replayed.add(mark)
            return True

    def unmark(self, position: RecordPosition) -> None:
        """After a letter could not be sent."""
        with self._lock:
            self._replayed.discard(self._format(position))

    def _format(self, position: RecordPosition) -> str:
        return f"{self._topics.dead_letters}-{position[0]}-{position[1]}"

    def read(self, position: RecordPosition) -> DeadLetter | None:
        """The letter with its bytes; None if the log does not hold it any more."""
        record = self._log.read_record(self._topics.dead_letters, *position)
        return None if record is None else DeadLetter(record)

    def read_all(self, positions: Collection[RecordPosition]) -> Iterator[DeadLetter]:
        """Several letters in one pass over the topic, oldest first."""
        remaining = set(positions)
        with closing(self._log.follow(self._topics.dead_letters)) as follower:
            while remaining:
                records = follower.poll()
                for record in records:
                    if record.position in remaining:
                        remaining.discard(record.position)
                        yield DeadLetter(record)
                if follower.caught_up and not records:
                    return


def find_names(value: bytes | None) -> tuple[str | None, str | None]:
    """Dataset and sentence id of a message, as far as it says them."""
    try:
        fields = from_json(value or b"")
    except ValueError:
        return None, None
    if not isinstance(fields, dict):
        return None, None
    dataset, sentence_id = fields.get("dataset", "default"), fields.get("id")
    return (
        dataset if isinstance(dataset, str) and is_dataset_name(dataset) else None,
        sentence_id[:512] if isinstance(sentence_id, str) else None,
    )
