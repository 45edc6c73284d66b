"""The stored sentences of a dataset: the newest revision of each, whichever topic still holds it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from service.contracts import LabelledSentence
from service.log.protocol import Output, Record
from service.log.sqlite.log import SqliteLog
from service.log.topics import Topics
from service.log.waiting_records import build_waiting_message
from service.review.stored_sentences import StoredSentences
from tests.support.review_queue import make_assessment, make_review_output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPICS = Topics()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    with closing(SqliteLog(tmp_path / "log.sqlite", TOPICS)) as opened:
        yield opened


def make_value(word: str, **fields: Any) -> bytes:
    sentence = LabelledSentence.model_validate({"tokens": [word], "labels": ["O"], **fields})
    return sentence.model_dump_json(exclude_none=True).encode()


def make_waiting(word: str, *, offset: int, **fields: Any) -> Output:
    """A sentence that waits, and that the input may have dropped."""
    value = make_value(word, **fields)
    record = Record(TOPICS.sentences, 0, offset, None, value)
    sentence = LabelledSentence.model_validate_json(value)
    named = sentence.model_copy(update={"id": sentence.id or f"{TOPICS.sentences}-0-{offset}"})
    return build_waiting_message(TOPICS.waiting, record, named)


def read_words(log: SqliteLog) -> dict[str, str]:
    stored = StoredSentences(log, TOPICS, "default")
    words = {str(sentence.id): sentence.tokens[0] for sentence in stored}
    assert words == {str(sentence.id): sentence.tokens[0] for sentence in stored.list_in_order()}
    return words


def test_sentences_that_wait_count_once_and_also_when_the_input_has_dropped_them(log: SqliteLog) -> None:
    log.append([Output(TOPICS.sentences, None, make_value("input"))])
    log.append(
        [
            make_waiting("input", offset=0),  # the same record: its id is its position in the input
            make_waiting("dropped", offset=7),
            make_waiting("other", offset=8, dataset="law"),
            make_waiting("old", offset=9, id="a"),
            make_waiting("new", offset=10, id="a", revision=2),
        ]
    )
    names = {f"{TOPICS.sentences}-0-0": "input", f"{TOPICS.sentences}-0-7": "dropped", "a": "new"}
    assert read_words(log) == names


def test_a_released_record_leaves_the_sentence_where_it_is(log: SqliteLog) -> None:
    log.append([Output(TOPICS.sentences, None, make_value("word", id="a"))])
    waiting = make_waiting("word", offset=0, id="a")
    log.append([waiting, Output(TOPICS.waiting, waiting.key, None, partition=0)])
    assert read_words(log) == {"a": "word"}


def test_the_highest_revision_counts_over_all_topics(log: SqliteLog) -> None:
    log.append([Output(TOPICS.sentences, None, make_value("one", id="a", revision=1))])
    log.append([make_waiting("two", offset=3, id="a", revision=2)])
    assert read_words(log) == {"a": "two"}
    log.append([make_review_output(make_assessment("a", p=(0.1,), tokens=("three",), labels=("O",), revision=3))])
    assert read_words(log) == {"a": "three"}
    log.append([Output(TOPICS.sentences, None, make_value("three, sent again", id="a", revision=3))])
    assert read_words(log) == {"a": "three, sent again"}
    log.append([Output(TOPICS.sentences, None, b'{"id": "a", "revision": 4, "deleted": true}')])
    assert read_words(log) == {}


def test_what_is_no_sentence_is_skipped(log: SqliteLog) -> None:
    log.append(
        [Output(TOPICS.sentences, None, b"no JSON"), Output(TOPICS.waiting, b"default/x/0-1", b"{}", partition=0)]
    )
    assert read_words(log) == {}
