"""Full-text queries over the words of the items. A query is built from quoted phrases only, so no input is syntax.

To read the numbers of all items that match takes longer the more there are. A word that many items have is looked up in one
item after the other instead: a page of them is soon found. That is for one or two whole words only. The index has prefixes of
up to three letters: each lookup of a longer one merges the items of all words that begin with it, and takes as long as to read
them all.
"""

from __future__ import annotations

import re
import time
import unicodedata
from itertools import groupby
from typing import TYPE_CHECKING, Final

from service.errors import InvalidInput

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

MAX_SEARCH_CHARS: Final = 200
MAX_SEARCH_TERMS: Final = 20
SAMPLES: Final = 10
SAMPLE_SIZE: Final = 100
MIN_COMMON_SHARE: Final = 0.05
MAX_LOOKUP_WORDS: Final = 2
"""Of 300,000 items, a page of 200 with two common words takes 10 to 17 ms by lookups, else 41 to 83 ms. With three it takes 86
to 107 ms, else 42 to 75 ms."""
MAX_LOOKUPS: Final = 2_000  # of 20 µs each, as long as to read 100,000 numbers
MAX_LOOKUP_S: Final = 0.05
"""For all lookups of a page. One in an item without the words reads on to the next item that has them: if that is far, it
takes as long as to read all numbers."""
SEARCH_TERM: Final = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
QUOTED_TERM: Final = re.compile(r'"((?:[^"]|"")*)"(\*?)')


def build_search_match(search: str) -> str:
    """The query of a search by hand: all words, in any order. `"two words"` is a phrase, `Mad*` the beginning of a word."""
    if len(search) > MAX_SEARCH_CHARS:
        raise InvalidInput(f"it has {len(search)} characters, at most {MAX_SEARCH_CHARS} are allowed", field="q")
    terms = [
        _quote(text) + ("*" if is_prefix else "")
        for text, is_prefix in map(_parse_term, SEARCH_TERM.finditer(search))
        if has_searchable_char(text)
    ]
    if not terms:
        raise InvalidInput("it has no letter, digit or symbol to search for", field="q")
    if len(terms) > MAX_SEARCH_TERMS:
        raise InvalidInput(f"it has {len(terms)} words, at most {MAX_SEARCH_TERMS} are allowed", field="q")
    return " AND ".join(terms)


def build_phrases_match(phrases: Iterable[tuple[str, ...]]) -> str:
    """The query for any of these sequences of words."""
    return " OR ".join(_quote(" ".join(phrase)) for phrase in phrases)


def is_fast_to_look_up(match: str) -> bool:
    """Whether it takes little time to say if one item matches: the query has one or two words, and none is a prefix."""
    terms = QUOTED_TERM.findall(match)
    n_words = sum(is_word for text, _ in terms for is_word, _ in groupby(text, has_searchable_char))
    return n_words <= MAX_LOOKUP_WORDS and not any(star for _, star in terms)


def is_common(db: sqlite3.Connection, match: str) -> bool:
    """Whether at least one of twenty items seems to match, by a sample of neighbours all over the table."""
    (last,) = db.execute("SELECT max(no) FROM items").fetchone()
    if last is None or last <= SAMPLES * SAMPLE_SIZE:
        return False  # all numbers are soon read
    query = "SELECT count(*) FROM texts WHERE texts MATCH ? AND rowid BETWEEN ? AND ?"
    starts = (1 + k * (last - SAMPLE_SIZE) // (SAMPLES - 1) for k in range(SAMPLES))
    found = sum(db.execute(query, (match, start, start + SAMPLE_SIZE - 1)).fetchone()[0] for start in starts)
    return bool(found >= MIN_COMMON_SHARE * SAMPLES * SAMPLE_SIZE)


def find_words_in_order(db: sqlite3.Connection, match: str, numbers: Iterable[int], limit: int) -> list[int] | None:
    """The first items of these that match; None where that takes too many lookups, or too long.

    Only the time of the lookups counts: the numbers are read in any case.
    """
    found: list[int] = []
    seconds = 0.0
    query = "SELECT 1 FROM texts WHERE texts MATCH ? AND rowid = ?"
    for lookups, number in enumerate(numbers):
        if lookups == MAX_LOOKUPS or seconds > MAX_LOOKUP_S:
            return None
        started = time.monotonic()
        matches = db.execute(query, (match, number)).fetchone() is not None
        seconds += time.monotonic() - started
        if matches:
            found.append(number)
            if len(found) == limit:
                break
    return found


def has_searchable_char(text: str) -> bool:
    """Whether the index holds anything of the text: it leaves out punctuation (see the table `texts`)."""
    return any(unicodedata.category(char)[0] in "LMNS" or unicodedata.category(char) == "Co" for char in text)


def _parse_term(term: re.Match[str]) -> tuple[str, bool]:
    """The text, and whether it is only the beginning of a word."""
    phrase, star, word = term.groups()
    if phrase is not None:
        return phrase, bool(star)
    return word.removesuffix("*"), word.endswith("*")


def _quote(text: str) -> str:
    escaped = text.replace('"', '""').replace("\0", " ")
    return f'"{escaped}"'
