"""The keys of memory: the form of a word, and the template of shapes around it.

A form is the exact word, for words with a capital letter or a digit; only those are smoothed. A template is the shape
of the word and of two neighbours on each side. The shape of a word is U if all its letters are upper case, T if it
begins with an upper-case letter, D if it begins with a digit. Every other word, and punctuation, stands for itself.

In a script without capitals only words with digits have a form, and templates repeat only where the words do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_FORM_CHARS = 40  # a longer word has no form
MAX_SHAPE_CHARS = 16  # of a word that stands for itself in a template
MAX_CACHED_WORDS = 2**15
SENTENCE_START, SENTENCE_END = "<s>", "</s>"
SEPARATOR = "\x1f"


class SentenceKeys(NamedTuple):
    """The forms of a sentence, the index of each form's word, and the template of each word."""

    forms: list[str]
    with_form: list[int]
    templates: list[str]


def read_keys(tokens: Sequence[str], scored: Sequence[int] | None = None) -> SentenceKeys:
    """The keys of the scored words, all words if None. Indexes count scored words; neighbours may be unscored."""
    words = [_read_word(token if len(token) <= MAX_FORM_CHARS else token[: MAX_FORM_CHARS + 1]) for token in tokens]
    shapes = [SENTENCE_START, SENTENCE_START, *[shape for shape, _ in words], SENTENCE_END, SENTENCE_END]
    windows = zip(shapes, shapes[1:], shapes[2:], shapes[3:], shapes[4:], strict=False)
    templates = [SEPARATOR.join(window) for window in windows]
    if scored is not None and len(scored) < len(words):
        words, templates = [words[index] for index in scored], [templates[index] for index in scored]
    with_form = [index for index, (_, has_form) in enumerate(words) if has_form]
    if scored is None:
        return SentenceKeys([tokens[index] for index in with_form], with_form, templates)
    return SentenceKeys([tokens[scored[index]] for index in with_form], with_form, templates)


@lru_cache(maxsize=MAX_CACHED_WORDS)
def _read_word(word: str) -> tuple[str, bool]:
    """The shape of a word, and whether it has a form. The caller cuts long words, so that the cache stays small."""
    has_form = len(word) <= MAX_FORM_CHARS and any(char.isupper() or char.istitle() or char.isdigit() for char in word)
    return _find_shape(word), has_form


def _find_shape(word: str) -> str:
    first = word[:1]
    if word.isupper():
        return "U"
    if first.isupper() or first.istitle():
        return "T"
    if first.isdigit():
        return "D"
    return word[:MAX_SHAPE_CHARS]
