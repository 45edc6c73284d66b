from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from service.errors import InvalidInput
from service.review.projection.tables import SCHEMA
from service.review.queue.word_search import build_phrases_match, build_search_match
from tests.support.review_queue import make_assessment, make_review_output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.review_queue import QueueHarness

SENTENCES = (
    "Real Madrid beat Lakeside Bus Drivers' Union .",
    "Madrid is not the real capital",
    "José met Jose in the U.S. at 3.5 %",
    "हिन्दी और 北京 🙂 C++",
)


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    for number, text in enumerate(SENTENCES):
        connection.execute("INSERT INTO texts (rowid, words) VALUES (?, ?)", (number, text))
    yield connection
    connection.close()


def search(db: sqlite3.Connection, match: str) -> list[int]:
    return [number for (number,) in db.execute("SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rowid", (match,))]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("madrid", [0, 1]),
        ("MADRID Real", [0, 1]),
        ('"real madrid"', [0]),
        ('"madrid real"', []),
        ("Mad", []),
        ("Mad*", [0, 1]),
        ("*Madrid", [0, 1]),  # read as the word itself
        ("*rid", []),
        ('"real mad"*', [0]),
        ("drivers' union", [0]),
        ("jose", [2]),
        ("u.s.", [2]),
        ("3.5", [2]),
        ("madrid .", [0, 1]),  # punctuation is not indexed
        ("हिन्दी", [3]),
        ("北京", [3]),
        ("🙂", [3]),
        ("c++", [3]),
        ("real OR union", []),  # words of the query language are words
        ("NOT real", [1]),
        ('words:real"', []),
        ("real\0madrid", [0]),
    ],
)
def test_a_search_finds_all_its_words(db: sqlite3.Connection, text: str, numbers: list[int]) -> None:
    assert search(db, build_search_match(text)) == numbers


def test_phrases_are_alternatives(db: sqlite3.Connection) -> None:
    assert search(db, build_phrases_match([("Lakeside", "Bus"), ("U.S.",)])) == [0, 2]


@pytest.mark.parametrize("text", ["", "   ", ".", '"', '""', "( ) *", "a" * 201, "a " * 21])
def test_a_search_without_words_or_with_too_many_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build_search_match(text)
    assert caught.value.field == "q"


def test_the_words_follow_the_newest_revision(harness: QueueHarness) -> None:
    harness.write(make_review_output(make_assessment("a", tokens=("In", "Madrid", "."))))
    assert harness.list_ids(q="madrid") == ["a"]
    harness.write(make_review_output(make_assessment("a", tokens=("In", "Rome", "."), revision=1)))
    assert harness.list_ids(q="madrid") == []
    assert harness.list_ids(q="rome") == ["a"]
    deletion = make_assessment("a", reason="deleted", revision=2)
    harness.write(make_review_output(deletion))
    assert harness.list_ids(q="rome", state="all") == []
