"""Erases one sentence from an embedded log: from the topics of all prefixes, and from the file of the review queue.

A record is the sentence's if its value says so, whatever its key: a message with a document has the document in its key. The
key counts only where the value is no JSON object.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic_core import from_json

from service.errors import RejectedRequestError, SettingsError, StateError
from service.file_lock import FileLock
from service.log.codec import parse_position, to_position_key
from service.log.dead_letters import DeadLetter, get_replayed_position
from service.log.sqlite.admin import list_topic_names, read_rows
from service.log.sqlite.database import PARTITION
from service.log.sqlite.exclusive import delete_for_good, open_exclusively
from service.log.sqlite.integrity import SIDE_FILES, find_log_damage, is_log_file
from service.log.topics import Topics
from service.log.waiting_records import read_stored_record
from service.review.messages import parse_decision_key
from service.runtime.open_log import build_topics

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from service.log.protocol import Record
    from service.settings import Settings

STATE_SUFFIX: Final = Topics("").state  # each prefix that a worker writes has this topic
NO_ORIGIN: Final = "?-?-?"  # of a record that is no dead letter
MAX_NAMED_RECORDS: Final = 20
JOURNAL_SUFFIX: Final = "-journal"


class Erasure(NamedTuple):
    """`records`: how many were removed, by topic. `deletions`: records without words, which stay and say that the sentence is
    deleted. `mentions`: records that are no JSON and contain the id, at most `MAX_NAMED_RECORDS`. `other_logs`: files beside the
    log that may hold the sentence too.
    """

    records: dict[str, int]
    deletions: list[str]
    mentions: list[str]
    queue_files: list[Path]
    other_logs: list[Path]


class _Found(NamedTuple):
    offsets: dict[str, list[int]]
    deletions: list[str]
    mentions: list[str]

    def add(self, other: _Found) -> _Found:
        return _Found(
            {**self.offsets, **other.offsets}, self.deletions + other.deletions, self.mentions + other.mentions
        )


def erase_sentence(settings: Settings, dataset: str, sentence_id: str) -> Erasure:
    """Raises an error, and changes nothing, if labelwatch is running, or has not judged the sentence yet."""
    path = settings.log.path
    damage = find_log_damage(path)
    if damage:
        raise SettingsError(f"{path} is damaged: {'; '.join(damage)}. Restore a backup with `labelwatch restore` first")
    with _hold_queue_lock(settings.queue_path), open_exclusively(path) as db:
        found = _Search(dataset, sentence_id).run(db, build_topics(settings))
        delete_for_good(db, found.offsets)
        queue_files = _remove_queue(settings.queue_path)
    return Erasure(
        {topic: len(offsets) for topic, offsets in found.offsets.items() if offsets},
        found.deletions,
        found.mentions[:MAX_NAMED_RECORDS],
        queue_files,
        sorted(file for file in path.parent.iterdir() if file != path and is_log_file(file)),
    )


class _Search:
    """Finds the records of one sentence."""

    def __init__(self, dataset: str, sentence_id: str) -> None:
        self._sentence = dataset, sentence_id
        self._key = f"{dataset}/{sentence_id}".encode()
        self._texts = {json.dumps(sentence_id, ensure_ascii=escaped).encode() for escaped in (True, False)}
        # That were found, with the dead letters that they were, and the messages that these were.
        self._messages: set[str] = set()

    def run(self, db: sqlite3.Connection, topics: Topics) -> _Found:
        names = list_topic_names(db)
        inputs, prefixes = _list_inputs(names, topics), _list_prefixes(names, topics)
        self._find_all(db, inputs)  # twice: the message of a dead letter may say less than what became of the letter
        self._find_all(db, [each.dead_letters for each in prefixes])
        found = self._find_all(db, inputs)
        _refuse_unjudged(db, topics, found.offsets[topics.sentences])
        for each in prefixes:
            rest = (each.dead_letters, each.review, each.scores, each.waiting, each.decisions, each.webhooks)
            found = found.add(self._find_all(db, rest))
        return found

    def _find_all(self, db: sqlite3.Connection, names: Iterable[str]) -> _Found:
        found = _Found({}, [], [])
        for name in dict.fromkeys(names):
            found.offsets[name] = self._find(db, name, found)
        return found

    def _find(self, db: sqlite3.Connection, topic: str, found: _Found) -> list[int]:
        offsets: list[int] = []
        for record, problem in read_rows(db, topic):
            position = f"{topic}-{record.partition}-{record.offset}"
            fields = _parse_object(record.value)
            if not (self._is_named(fields, record) if fields is not None else self._is_key(record)):
                if problem or (fields is None and any(text in (record.value or b"") for text in self._texts)):
                    found.mentions.append(position)
                continue
            if fields is not None and fields.get("reason") == "deleted" and not fields.get("tokens"):
                found.deletions.append(position)
                continue
            offsets.append(record.offset)
            self._messages.update({position, get_replayed_position(record) or position, DeadLetter(record).origin})
        return offsets

    def _is_named(self, fields: dict[str, Any], record: Record) -> bool:
        if self._is_dead_letter_of_found(record):
            return True
        data = fields.get("data")
        if "dataset" not in fields and isinstance(data, dict):  # of a notification
            fields = data
        sentence_id = fields.get("id")
        if sentence_id is None:
            sentence_id = _get_input_position(record)
        return (fields.get("dataset", "default"), str(sentence_id)) == self._sentence

    def _is_key(self, record: Record) -> bool:
        """For a value that says nothing: tombstones hold no text and stay."""
        if record.value is None:
            return False
        key = record.key or b""
        decision = parse_decision_key(key)
        return (
            key == self._key
            or self._key == key.rpartition(b"/")[0]  # of a stored record that waits
            or (decision is not None and decision[:2] == self._sentence)
            or self._is_dead_letter_of_found(record)
        )

    def _is_dead_letter_of_found(self, record: Record) -> bool:
        letter = DeadLetter(record)
        return not self._messages.isdisjoint({letter.origin, letter.position} - {NO_ORIGIN})


def _list_prefixes(names: Iterable[str], topics: Topics) -> list[Topics]:
    prefixes = [name.removesuffix(STATE_SUFFIX) for name in names if name.endswith(STATE_SUFFIX)]
    return [Topics(prefix) for prefix in dict.fromkeys((topics.prefix, *prefixes))]


def _list_inputs(names: Iterable[str], topics: Topics) -> list[str]:
    return [topics.sentences, *(each.sentences for each in _list_prefixes(names, topics))]


def _parse_object(value: bytes | None) -> dict[str, Any] | None:
    try:
        fields = from_json(value or b"")
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _get_input_position(record: Record) -> str:
    """Where the message of a sentence without an id was in the input: that is its id."""
    try:
        stored = read_stored_record(record).record
    except StateError:
        origin = DeadLetter(record).origin
        return f"{record.topic}-{record.partition}-{record.offset}" if origin == NO_ORIGIN else origin
    return f"{stored.topic}-{stored.partition}-{stored.offset}"


def _refuse_unjudged(db: sqlite3.Connection, topics: Topics, offsets: list[int]) -> None:
    """A worker would write what it makes of a message that it has begun to read, or count it as lost."""
    key = to_position_key(PARTITION)
    positions = [record.value for record, _ in read_rows(db, topics.state) if record.key == key and record.value]
    next_offset = parse_position(positions[-1]) if positions else 0
    if any(offset >= next_offset for offset in offsets):
        raise RejectedRequestError(
            "a message of the sentence is not judged yet: run `labelwatch worker --once`, then erase it"
        )


# -- the file of the queue ---------------------------------------------------------------------------------------------


@contextmanager
def _hold_queue_lock(path: Path) -> Iterator[None]:
    try:
        lock = FileLock(path.with_name(path.name + ".lock"))
    except BlockingIOError as error:
        raise SettingsError(f"a process uses the review queue at {path}: stop labelwatch first") from error
    with lock:
        yield


def _remove_queue(path: Path) -> list[Path]:
    files = [path.with_name(path.name + suffix) for suffix in ("", *SIDE_FILES, JOURNAL_SUFFIX)]
    removed = [file for file in files if file.exists()]
    for file in removed:
        file.unlink()
    return removed
