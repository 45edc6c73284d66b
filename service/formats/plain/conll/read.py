"""Reads CoNLL columns: one word per line, the word first and its label last, a blank line between sentences.

Tabs separate columns if the line of the first word has one, else spaces. All lines of a sentence have the same number
of columns. A `-DOCSTART-` line ends a sentence and is no word. The sentences after it are of one document, up to the next
such line: `FILE:docN`, where N counts these lines from 1. `# document = NAME` and `# newdoc id = NAME` name it otherwise.

A line that starts with "#" may be a comment or a word ("#", "#metoo"). Inside a sentence it is a word. Before one:

- `# key = value` and `#key=value` are comments; `id` and `sent_id` name the sentence (as does `# id value`), `document`
  and `doc_id` the document from here on, or none if the value is empty,
- it is a word if its last column is a label (`O`, `B-PER`, or one seen before) or the line starts with "#" and a tab,
- it is an error if neither applies and it has as many columns as the words,
- everything else is a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.contracts import MAX_DOCUMENT_CHARS
from service.errors import DecodeError, InvalidInput
from service.formats.records import (
    DOCUMENT_FIELDS,
    ID_FIELDS,
    FileRecord,
    ReadOptions,
    check_text,
    find_document,
    make_record,
    reject,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.formats.io.source import TextSource

_KEY_VALUE_COMMENT = re.compile(r"^# *(newdoc id|[\w.:-]+) += *(.*)$")
_COMPACT_KEY_VALUE_COMMENT = re.compile(r"^#\w+=")
_ID_COMMENT = re.compile(r"^# *(id) +(\S+)")
LABEL_PATTERN = re.compile(r"^(O|[BILUESM]-\S+)$")
_BLANKS = re.compile(r"[ \t]+")
DOCUMENT_MARK = "-DOCSTART-"
NAME = "conll"
_DOCUMENT_KEYS = (*DOCUMENT_FIELDS, "newdoc id")  # the last one is CoNLL-U's


@dataclass(slots=True)
class _ConllDraft:
    """The sentence being read."""

    line: int
    id: str | None = None
    document: str | None = None
    tokens: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    width: int | None = None
    error: InvalidInput | None = None
    error_line: int = 0


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    """Reads a column file sentence by sentence."""
    reader = _ConllReader(source, options)
    for number, line in source.read_lines():
        record = reader.feed(number, line)
        if record is not None:
            yield record
    record = reader.finish()
    if record is not None:
        yield record


class _ConllReader:
    def __init__(self, source: TextSource, options: ReadOptions) -> None:
        self._source = source
        self._options = options
        self._word_column = _parse_column_number("word", options.word, default=1)
        self._label_column = _parse_column_number("label", options.label, default=-1)
        self._uses_tabs: bool | None = None
        self._width: int | None = None
        self._seen_labels: set[str] = set()
        self._sentence_number = 0
        self._next_id: str | None = None
        self._document: str | None = None
        self._n_documents = 0
        self._draft: _ConllDraft | None = None

    def feed(self, number: int, line: str) -> FileRecord | None:
        bare = line.strip(" \t")
        if not bare:
            return self.finish()
        if bare.startswith(DOCUMENT_MARK) and _BLANKS.split(bare, maxsplit=1)[0] == DOCUMENT_MARK:
            self._n_documents += 1
            self._document = f"{self._options.id_prefix}doc{self._n_documents}"[-MAX_DOCUMENT_CHARS:]
            return self.finish()
        try:
            if bare.startswith("#") and self._is_comment(line):
                self._read_comment(line)
                return None
            problem = None
        except InvalidInput as error:
            problem = error
        if self._draft is None:
            self._draft = _ConllDraft(number, id=self._next_id, document=self._document)
            self._next_id = None
        draft = self._draft
        try:
            if problem is not None:
                raise problem
            self._add_word(draft, line)
        except InvalidInput as error:
            if draft.error is None:
                draft.error, draft.error_line = error, number
        return None

    def finish(self) -> FileRecord | None:
        draft, self._draft = self._draft, None
        if draft is None:
            return None
        self._sentence_number += 1
        if draft.error is not None:
            return reject(draft.error, self._source.format_location(draft.error_line))
        fields = {"tokens": draft.tokens, "labels": draft.labels, "id": draft.id, "document": draft.document}
        return make_record(
            {**fields, "meta": {"format": NAME}},
            location=self._source.format_location(draft.line),
            number=self._sentence_number,
            options=self._options,
        )

    def _read_comment(self, line: str) -> None:
        match = _KEY_VALUE_COMMENT.match(line) or _ID_COMMENT.match(line)
        if match is None:
            return
        key, value = match.group(1), match.group(2).strip()
        if key in ID_FIELDS:
            self._next_id = value or self._next_id
        elif key in _DOCUMENT_KEYS:
            self._document = find_document({"document": value})

    def _add_word(self, draft: _ConllDraft, line: str) -> None:
        check_text(line, self._source.encoding)
        if self._uses_tabs is None:
            self._uses_tabs = "\t" in line.strip(" \t")
        columns = self._split_columns(line)
        if len(columns) < 2:
            separator = "tabs" if self._uses_tabs else "spaces"
            raise DecodeError(
                f"one column ({line.strip()[:40]!r}): each line needs a word and its label with {separator} between"
            )
        if self._label_column < 0 and draft.width not in (None, len(columns)):
            raise DecodeError(
                f"{len(columns)} columns, and the sentence's first line has {draft.width}: is one missing?"
            )
        draft.width = self._width = len(columns)
        word, label = (
            self._get_cell(columns, self._word_column, "word"),
            self._get_cell(columns, self._label_column, "label"),
        )
        # One word too many shows that the limit is exceeded; a file without blank lines must not fill the memory.
        if len(draft.tokens) <= self._options.max_words:
            draft.tokens.append(word)
            draft.labels.append(label)
        if len(self._seen_labels) < 10_000:
            self._seen_labels.add(label)

    def _split_columns(self, line: str) -> list[str]:
        return line.split("\t") if self._uses_tabs else _BLANKS.split(line.strip(" \t"))

    def _get_cell(self, columns: list[str], index: int, name: str) -> str:
        try:
            value = columns[index]
        except IndexError:
            raise DecodeError(f"{len(columns)} columns, too few for the {name}'s column", field=name) from None
        if not value:
            raise DecodeError(f"the {name} is empty", field=name)
        return value

    def _is_comment(self, line: str) -> bool:
        if self._options.comments != "auto":
            return self._options.comments == "yes"
        if self._draft is not None:
            return False
        if _KEY_VALUE_COMMENT.match(line):
            return True
        columns = self._split_columns(line) if self._uses_tabs is not None else _BLANKS.split(line.strip(" \t"))
        has_word_width = len(columns) >= 2 and self._width in (None, len(columns))
        label = columns[self._find_label_index(columns)]
        if has_word_width and (LABEL_PATTERN.match(label) or label in self._seen_labels or line.startswith("#\t")):
            return False
        if (
            has_word_width
            and self._width is not None
            and not _ID_COMMENT.match(line)
            and not _COMPACT_KEY_VALUE_COMMENT.match(line)
        ):
            raise DecodeError(
                f"{line[:40]!r} may be a comment or a word: say --comments yes, or --comments no if the file has none"
            )
        return True

    def _find_label_index(self, columns: list[str]) -> int:
        return self._label_column if -len(columns) <= self._label_column < len(columns) else -1


def _parse_column_number(name: str, value: str | None, *, default: int) -> int:
    """The index of a column. Users count from 1, or from -1 at the end."""
    if value is None:
        number = default
    else:
        try:
            number = int(value)
        except ValueError:
            number = 0
        if number == 0:
            raise InvalidInput(
                f"--{name}-column {value}: columns of a CoNLL file have numbers, 1 is the first and -1 the last"
            )
    return number - 1 if number > 0 else number
