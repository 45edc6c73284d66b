"""Reads every record of an embedded log as its topic has it, and finds those that can't be read.

The topics of settings and of statistics are left out: whoever checks a log reads them as a worker does. So are the values of
dead letters, which may be anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import ValidationError

from service.access.key_records import StoredKeys
from service.contracts import Assessment, Training, TrainingRequest, read_sentence
from service.contracts.access.audit import AuditRecord
from service.contracts.validation import to_invalid_input
from service.datasets.trainings import REQUEST_NAME
from service.errors import InvalidInput, StateError, TooLongError
from service.log.sqlite.admin import read_log_file
from service.log.unreadable_records import UnreadableRecord, select_damaged_messages
from service.log.waiting_records import read_stored_record
from service.notifications.state import UNREADABLE_ERRORS, NotificationState
from service.review.messages import parse_decision_record, parse_review_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from service.log.protocol import Record
    from service.log.topics import Topics

MAX_NAMED_RECORDS: Final = 5
MAX_MESSAGES_AT_ONCE: Final = 100_000  # of the input that can't be read, looked up among the dead letters in one pass
NEWER_ERRORS: Final = frozenset({"literal_error", "enum", "union_tag_invalid"})  # a newer labelwatch may know more


class UnreadableRecords(NamedTuple):
    """How many records can't be read, and the first of them."""

    total: int
    first: list[UnreadableRecord]

    def __str__(self) -> str:
        more = self.total - len(self.first)
        return "; ".join(map(str, self.first)) + (f"; {more:,} more" if more > 0 else "")


def find_unreadable_records(path: Path, topics: Topics) -> UnreadableRecords:
    """Reads all of the file, record by record."""
    total = 0
    first: list[UnreadableRecord] = []
    for record in _iterate_unreadable(path, topics):
        total += 1
        if len(first) < MAX_NAMED_RECORDS:
            first.append(record)
    return UnreadableRecords(total, first)


def _iterate_unreadable(path: Path, topics: Topics) -> Iterator[UnreadableRecord]:
    messages: list[UnreadableRecord] = []
    for message in _read_all(path, topics.sentences, _check_sentence):
        messages.append(message)
        if len(messages) == MAX_MESSAGES_AT_ONCE:
            yield from _select_damaged(path, topics, messages)
            messages = []
    yield from _select_damaged(path, topics, messages)
    checks: dict[str, Callable[[Record], object]] = {
        topics.review: parse_review_record,
        topics.scores: _check_score,
        topics.waiting: _check_waiting,
        topics.decisions: parse_decision_record,
        topics.models: _check_training,
        topics.keys: _check_key,
        topics.audit: lambda record: AuditRecord.model_validate_json(record.value or b""),
        topics.webhooks: _check_webhook,
    }
    for spec in topics.list_specs():
        if spec.name != topics.sentences:
            yield from _read_all(path, spec.name, checks.get(spec.name, lambda _: None))


def _read_all(path: Path, topic: str, check: Callable[[Record], object]) -> Iterator[UnreadableRecord]:
    for record, problem in read_log_file(path, topic):
        if reason := problem or _find_problem(record, check):
            yield UnreadableRecord(topic, record.position, reason)


def _find_problem(record: Record, check: Callable[[Record], object]) -> str:
    try:
        check(record)
    except ValidationError as error:
        if all(each["type"] in NEWER_ERRORS for each in error.errors(include_url=False)):
            return ""
        return str(to_invalid_input(error))
    except (InvalidInput, StateError) as error:
        return str(error)
    return ""


def _select_damaged(path: Path, topics: Topics, messages: list[UnreadableRecord]) -> list[UnreadableRecord]:
    if not messages:
        return []
    dead_letters, state = (
        (record for record, _ in read_log_file(path, topic)) for topic in (topics.dead_letters, topics.state)
    )
    return select_damaged_messages(messages, dead_letters=dead_letters, state=state)


# -- what a record of each topic must be -------------------------------------------------------------------------------


def _check_sentence(record: Record) -> None:
    try:
        read_sentence(record.value or b"")
    except TooLongError:  # the limit is a setting
        return


def _check_score(record: Record) -> None:
    if record.value is not None:
        Assessment.model_validate_json(record.value)


def _check_waiting(record: Record) -> None:
    if record.value is not None:
        _check_sentence(read_stored_record(record).record)


def _check_training(record: Record) -> None:
    if record.value is not None:
        is_request = (record.key or b"").partition(b"/")[2] == REQUEST_NAME
        (TrainingRequest if is_request else Training).model_validate_json(record.value)


def _check_key(record: Record) -> None:
    for problem in StoredKeys([record]).unreadable.values():
        raise InvalidInput(f"the key {(record.key or b'').decode(errors='replace')} is not valid: {problem}")


def _check_webhook(record: Record) -> None:
    try:
        NotificationState().apply_strictly(record)
    except ValidationError:
        raise
    except UNREADABLE_ERRORS as error:
        raise InvalidInput("it is no positions and no condition") from error
