"""Reads CSV and TSV with a header: one row per word, or one row per sentence.

The header names the columns, in any case and many spellings ("Sentence #", sentence_id, Word, token, Tag, ner_tags, …);
options name them otherwise. With one row per word a new value in the sentence column starts a sentence and an empty
cell continues it (Kaggle's files fill only the cell of the first word); without that column a blank row separates
sentences. A new value in the document column starts a sentence too, because sentences may be numbered in each document. With one row per sentence the words and labels are JSON arrays, Python lists as pandas writes them, or
separated by spaces.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from service.errors import DecodeError, InvalidInput
from service.formats.io.cells import parse_list_cell
from service.formats.io.rows import TableRow, read_plain_rows, read_quoted_rows
from service.formats.io.spreadsheet_cells import restore_cell
from service.formats.plain.tabular.columns import is_own_header
from service.formats.records import (
    DOCUMENT_FIELDS,
    ID_FIELDS,
    PASSTHROUGH_FIELDS,
    FileRecord,
    ReadOptions,
    find_batch,
    find_document,
    make_record,
    reject,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from service.formats.io.source import TextSource

WORD_COLUMN_NAMES = ("word", "token", "form", "tokens", "words", "text", "sentence")
LABEL_COLUMN_NAMES = ("labels", "label", "ner_tags", "ner_tag", "ner", "word_labels", "tags", "tag", "iob", "bio")
SENTENCE_COLUMN_NAMES = (
    "sentence_id",
    "sent_id",
    "sentence_number",
    "sentence_idx",
    "sentence_index",
    "sentence",
    "sent",
)
_WORD_ROW_COLUMN_NAMES = ("word", "token", "form")
# The fields of a sentence that a cell can hold.
_PASSTHROUGH_COLUMNS = tuple(
    name for name in PASSTHROUGH_FIELDS if name not in {"meta", "update", "deleted", "probabilities"}
)
DELIMITERS = (",", "\t", ";", "|")
# Rows that are inspected to find out whether a row is a word or a sentence.
_SAMPLE_ROWS = 50


def normalize_name(name: str) -> str:
    """`Sentence #` and `sentence-number` are the same name."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace("#", " number ")).strip("_")


def detect_delimiter(line: str) -> str | None:
    """The delimiter of a header that names a word and a label column; None if the line is no such header."""
    for delimiter in DELIMITERS:
        if delimiter in line:
            names = {normalize_name(name.strip(' "')) for name in line.split(delimiter)}
            if names & set(WORD_COLUMN_NAMES) and names & set(LABEL_COLUMN_NAMES):
                return delimiter
    return None


@dataclass(frozen=True, slots=True)
class _TableHeader:
    header: list[str]
    word: int
    label: int
    sentence: int | None
    document: int | None
    batch: int | None
    passthrough: dict[str, int]
    meta: dict[str, Any]


def read_csv(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    first = next((line for line in source.head.splitlines() if line.strip()), "")
    delimiter = detect_delimiter(first) or max(DELIMITERS, key=first.count)
    return _read_table(source, options, read_quoted_rows(source, delimiter), "csv")


def read_tsv(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    """Reads tabs without quoting, so that a word `"` stays `"`; with quoting if the header is quoted."""
    first = next((line for line in source.head.splitlines() if line.strip()), "")
    rows = read_quoted_rows(source, "\t") if first.startswith('"') else read_plain_rows(source)
    return _read_table(source, options, rows, "tsv")


def _read_table(source: TextSource, options: ReadOptions, rows: Iterator[TableRow], form: str) -> Iterator[FileRecord]:
    header_line, header = next(((line, row) for line, row, _ in rows if not isinstance(row, list) or any(row)), (1, []))
    if isinstance(header, InvalidInput):
        raise reject(header, source.format_location(header_line)).error or header
    if not header:
        return iter(())
    table = _parse_header(header, options, source.format_location(header_line))
    sample = list(itertools.islice(rows, _SAMPLE_ROWS))
    layout = options.rows or _detect_layout(table, sample, source.name)
    table = replace(table, meta={"format": form, **({"rows": layout} if layout == "word" else {})})
    everything: Iterator[TableRow] = itertools.chain(sample, rows)
    if form == "csv" and is_own_header(header):
        everything = ((line, _restore_cells(row), raw) for line, row, raw in everything)
    checked = ((line, _check_width(row, table), raw) for line, row, raw in everything)
    if layout == "sentence":
        return _read_sentence_rows(source, options, table, checked)
    return _read_word_rows(source, options, table, checked)


def _parse_header(header: list[str], options: ReadOptions, location: str) -> _TableHeader:
    names = [normalize_name(name) for name in header]

    def find(column: str, chosen: str | None, known: Sequence[str]) -> int:
        for name in (normalize_name(chosen),) if chosen is not None else known:
            if name in names:
                return names.index(name)
        missing = f"no column {chosen}" if chosen is not None else f"no {column} column ({', '.join(known)})"
        present = ", ".join(name[:40] for name in header[:12])
        raise InvalidInput(
            f"{location}: {missing}; the first row must name the columns and has {present}: "
            f"name one with --{column}-column"
        )

    word = find("word", options.word, WORD_COLUMN_NAMES)
    label = find("label", options.label, LABEL_COLUMN_NAMES)
    if options.sentence is not None:
        sentence: int | None = find("sentence", options.sentence, ())
    else:
        known = (*SENTENCE_COLUMN_NAMES, *ID_FIELDS)
        sentence = next((names.index(name) for name in known if name in names and names.index(name) != word), None)
    used = (word, label, sentence)
    columns = (names.index(name) for name in DOCUMENT_FIELDS if name in names)
    document = next((column for column in columns if column not in used), None)
    batch = names.index("batch") if "batch" in names and names.index("batch") not in used else None
    passthrough = {name: names.index(name) for name in _PASSTHROUGH_COLUMNS if name in names}
    return _TableHeader(header, word, label, sentence, document, batch, passthrough, {})


def _detect_layout(table: _TableHeader, sample: Iterable[TableRow], name: str) -> str:
    cells = [row[table.label] for _line, row, _ in sample if isinstance(row, list) and len(row) > table.label]
    # Labels over several lines that are no list come from an open quote: ignore them.
    if any(cell.lstrip().startswith("[") or (len(cell.split()) > 1 and not _has_line_break(cell)) for cell in cells):
        return "sentence"
    if normalize_name(table.header[table.word]) in _WORD_ROW_COLUMN_NAMES or table.sentence is not None or not cells:
        return "word"
    raise InvalidInput(f"{name}: a row may be a word or a sentence here: say --rows word or --rows sentence")


def _restore_cells(row: list[str] | InvalidInput) -> list[str] | InvalidInput:
    return row if isinstance(row, InvalidInput) else [restore_cell(cell) for cell in row]


def _check_width(row: list[str] | InvalidInput, table: _TableHeader) -> list[str] | InvalidInput:
    """The row, or an error if it has not as many cells as the header. Spreadsheets add empty cells at the end."""
    width = len(table.header)
    if isinstance(row, InvalidInput) or not any(row):
        return row
    if len(row) < width or any(row[width:]):
        return DecodeError(f"{len(row)} cells, and the header has {width}: is a quote or a delimiter missing?")
    return row


def _read_sentence_rows(
    source: TextSource, options: ReadOptions, table: _TableHeader, rows: Iterable[TableRow]
) -> Iterator[FileRecord]:
    number = 0
    for line, row, _ in rows:
        location = source.format_location(line)
        if isinstance(row, InvalidInput):
            number += 1
            yield reject(row, location)
        elif any(row):
            number += 1
            try:
                fields = _read_passthrough_fields(row, table)
                if table.sentence is not None and row[table.sentence]:
                    fields["id"] = row[table.sentence]
                fields["tokens"] = parse_list_cell(row[table.word], numbers=False)
                fields["labels"] = parse_list_cell(row[table.label], numbers=True)
            except InvalidInput as error:
                yield reject(error, location)
            else:
                yield make_record(fields, location=location, number=number, options=options)


@dataclass(slots=True)
class _TableDraft:
    line: int
    fields: dict[str, Any] = field(default_factory=dict)
    tokens: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    error: FileRecord | None = None


def _read_word_rows(
    source: TextSource, options: ReadOptions, table: _TableHeader, rows: Iterable[TableRow]
) -> Iterator[FileRecord]:
    draft: _TableDraft | None = None
    current = current_document = ""
    number = 0
    bad = ""
    end: TableRow = (0, [], "")
    for line, row, raw in itertools.chain(rows, [end]):
        blank = isinstance(row, list) and not any(row)
        name, document = ("", "") if blank or not isinstance(row, list) else _read_sentence_cells(row, table)
        ends = line == 0 or (blank and table.sentence is None)
        ends = ends or name not in ("", current) or document not in ("", current_document)
        if ends and draft is not None:
            number += 1
            yield _finish_sentence(draft, source, number, options)
            draft = None
        if blank:
            continue
        current, current_document = name or current, document or current_document
        if draft is None:
            draft = _TableDraft(line)
            if bad and name and _has_cell(bad, name):
                error = DecodeError("the sentence's first words are in the bad row before")
                draft.error = reject(error, source.format_location(line))
            bad = ""
        try:
            if isinstance(row, InvalidInput):
                raise row
            _add_word(draft, row, table, name, options)
        except InvalidInput as error:
            draft.error = draft.error or reject(error, source.format_location(line))
            bad = raw


def _read_sentence_cells(row: list[str], table: _TableHeader) -> tuple[str, str]:
    """The names of the row's sentence and document; empty where the table has no such column."""
    name = "" if table.sentence is None else row[table.sentence]
    return name, "" if table.document is None else row[table.document]


def _add_word(draft: _TableDraft, row: list[str], table: _TableHeader, sentence_id: str, options: ReadOptions) -> None:
    if not draft.tokens:
        draft.fields = _read_passthrough_fields(row, table)
        draft.fields["id"] = sentence_id or None
    for name, index in (("word", table.word), ("label", table.label)):
        cell = row[index]
        if not (cell if name == "word" else cell.strip()):
            raise DecodeError(f"the {name} is empty", field=table.header[index])
        if _has_line_break(cell):
            lines = 1 + (cell.count("\n") or cell.count("\r"))
            raise DecodeError(
                f'the {name} goes over {lines} lines: is a quote left open? A word that is a quote is written """"',
                field=table.header[index],
            )
    # One word too many shows that the limit is exceeded; a table without sentences must not fill the memory.
    if len(draft.tokens) <= options.max_words:
        draft.tokens.append(row[table.word])
        draft.labels.append(row[table.label].strip())


def _has_line_break(cell: str) -> bool:
    return "\n" in cell or "\r" in cell


def _has_cell(raw: str, name: str) -> bool:
    """Whether a row that can't be parsed seems to have a cell with that sentence's name."""
    return re.search(rf'(?:^|[",;|\t\r\n]){re.escape(name)}(?:$|[",;|\t\r\n])', raw) is not None


def _finish_sentence(draft: _TableDraft, source: TextSource, number: int, options: ReadOptions) -> FileRecord:
    if draft.error is not None:
        return draft.error
    fields = {**draft.fields, "tokens": draft.tokens, "labels": draft.labels}
    return make_record(fields, location=source.format_location(draft.line), number=number, options=options)


def _read_passthrough_fields(row: Sequence[str], table: _TableHeader) -> dict[str, Any]:
    fields: dict[str, Any] = {name: row[index] for name, index in table.passthrough.items() if row[index]}
    fields["meta"] = table.meta
    if table.document is not None:
        fields["document"] = find_document({"document": row[table.document]})
    if table.batch is not None:
        fields["batch"] = find_batch({"batch": row[table.batch]})
    revision = fields.get("revision")
    if isinstance(revision, str) and re.fullmatch(r"-?\d{1,18}", revision.strip()):
        fields["revision"] = int(revision)
    return fields
