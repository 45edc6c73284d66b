"""Full-text queries over the words of the items. A query is built from quoted phrases only, so no input is syntax."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SEARCH_CHARS: Final = 200
MAX_SEARCH_TERMS: Final = 20
SEARCH_TERM: Final = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')


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
