"""CoNLL columns: one word a line, the word first and its label last, a blank line between sentences.

Columns are divided by tabs if the first word's line has one, else by spaces. All lines of a sentence have as many
columns as its first. `-DOCSTART-` lines end a sentence and are no words.

A line that starts with "#" may be a comment or a word ("#", "#metoo"). Inside a sentence it is a word. Before one:

- `# key = value` and `#key=value` are comments; `id` and `sent_id` name the sentence (as does `# id value`),
- it is a word if its last column is a label (`O`, `B-PER`, or one seen before) or the line starts with "#" and a tab,
- it is an error, not a guess, where neither holds and yet it has just as many columns as the words have,
- everything else is a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.errors import DecodeError, InvalidInput
from service.formats.records import Options, Record, check_text, make_record, rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.formats.io.source import Source

_PAIR = re.compile(r"^# *([\w.:-]+) += *(.*)$")
_LOOSE_PAIR = re.compile(r"^#\w+=")
_BARE_ID = re.compile(r"^# *(id) +(\S+)")
LABEL = re.compile(r"^(O|[BILUESM]-\S+)$")
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT = "-DOCSTART-"
FORMAT = "conll"
_ID_KEYS = ("id", "sent_id", "sentence_id")


@dataclass(slots=True)
class _Draft:
    """The sentence being read."""

    line: int
    id: str | None = None
    tokens: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    width: int | None = None
    error: InvalidInput | None = None
    error_line: int = 0


def read(source: Source, options: Options) -> Iterator[Record]:
    """Reads a column file sentence by sentence."""
    reader = _Reader(source, options)
    for number, line in source.lines():
        record = reader.feed(number, line)
        if record is not None:
            yield record
    record = reader.finish()
    if record is not None:
        yield record


class _Reader:
    def __init__(self, source: Source, options: Options) -> None:
        self._source = source
        self._options = options
        self._word = _column_number("word", options.word, default=1)
        self._label = _column_number("label", options.label, default=-1)
        self._tabs: bool | None = None
        self._width: int | None = None
        self._seen: set[str] = set()
        self._number = 0
        self._next_id: str | None = None
        self._draft: _Draft | None = None

    def feed(self, number: int, line: str) -> Record | None:
        bare = line.strip(" \t")
        if not bare or (bare.startswith(_DOCUMENT) and _BLANKS.split(bare, maxsplit=1)[0] == _DOCUMENT):
            return self.finish()
        try:
            if bare.startswith("#") and self._is_comment(line):
                self._next_id = _id_in(line) or self._next_id
                return None
            problem = None
        except InvalidInput as error:
            problem = error
        if self._draft is None:
            self._draft = _Draft(number, id=self._next_id)
            self._next_id = None
        draft = self._draft
        try:
            if problem is not None:
                raise problem
            self._add(draft, line)
        except InvalidInput as error:
            if draft.error is None:
                draft.error, draft.error_line = error, number
        return None

    def finish(self) -> Record | None:
        draft, self._draft = self._draft, None
        if draft is None:
            return None
        self._number += 1
        if draft.error is not None:
            return rejected(draft.error, self._source.place(draft.error_line))
        fields = {"tokens": draft.tokens, "labels": draft.labels, "id": draft.id, "meta": {"format": FORMAT}}
        return make_record(fields, place=self._source.place(draft.line), number=self._number, options=self._options)

    def _add(self, draft: _Draft, line: str) -> None:
        check_text(line, self._source.encoding)
        if self._tabs is None:
            self._tabs = "\t" in line.strip(" \t")
        columns = self._split(line)
        if len(columns) < 2:
            divided = "tabs" if self._tabs else "spaces"
            raise DecodeError(
                f"one column ({line.strip()[:40]!r}): each line needs a word and its label with {divided} between"
            )
        if self._label < 0 and draft.width not in (None, len(columns)):
            raise DecodeError(
                f"{len(columns)} columns, and the sentence's first line has {draft.width}: is one missing?"
            )
        draft.width = self._width = len(columns)
        word, label = self._pick(columns, self._word, "word"), self._pick(columns, self._label, "label")
        # One too many shows that the limit was passed; a file without blank lines is not gathered in memory.
        if len(draft.tokens) <= self._options.max_words:
            draft.tokens.append(word)
            draft.labels.append(label)
        if len(self._seen) < 10_000:
            self._seen.add(label)

    def _split(self, line: str) -> list[str]:
        return line.split("\t") if self._tabs else _BLANKS.split(line.strip(" \t"))

    def _pick(self, columns: list[str], number: int, what: str) -> str:
        try:
            value = columns[number]
        except IndexError:
            raise DecodeError(f"{len(columns)} columns, too few for the {what}'s column", field=what) from None
        if not value:
            raise DecodeError(f"the {what} is empty", field=what)
        return value

    def _is_comment(self, line: str) -> bool:
        if self._options.comments != "auto":
            return self._options.comments == "yes"
        if self._draft is not None:
            return False
        if _PAIR.match(line):
            return True
        columns = self._split(line) if self._tabs is not None else _BLANKS.split(line.strip(" \t"))
        fits = len(columns) >= 2 and self._width in (None, len(columns))
        if fits and (LABEL.match(columns[self._label_in(columns)]) or columns[self._label_in(columns)] in self._seen):
            return False
        if fits and line.startswith("#\t"):
            return False
        if fits and self._width is not None and not _BARE_ID.match(line) and not _LOOSE_PAIR.match(line):
            raise DecodeError(
                f"{line[:40]!r} may be a comment or a word: say --comments yes, or --comments no if the file has none"
            )
        return True

    def _label_in(self, columns: list[str]) -> int:
        return self._label if -len(columns) <= self._label < len(columns) else -1


def _column_number(what: str, asked: str | None, *, default: int) -> int:
    """Users count from 1, or from -1 at the end; Python's index comes out."""
    if asked is None:
        number = default
    else:
        try:
            number = int(asked)
        except ValueError:
            number = 0
        if number == 0:
            raise InvalidInput(
                f"--{what}-column {asked}: columns of a CoNLL file have numbers, 1 is the first and -1 the last"
            )
    return number - 1 if number > 0 else number


def _id_in(line: str) -> str | None:
    found = _PAIR.match(line) or _BARE_ID.match(line)
    return found.group(2).strip() or None if found and found.group(1) in _ID_KEYS else None
