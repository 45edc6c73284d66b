"""Rows of CSV and TSV files, each with its place: a bad one costs itself, an open quote all that is behind it."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TypeAlias

from service.errors import DecodeError, InvalidInput
from service.formats.records import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.formats.io.source import TextSource

# The line it starts at, its cells or what is wrong with it, and its text as it stands in the file.
TableRow: TypeAlias = tuple[int, list[str] | InvalidInput, str]


def read_quoted_rows(source: TextSource, delimiter: str) -> Iterator[TableRow]:
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for text in source.read_raw_lines():
            taken.append(text)
            yield text

    reader = csv.reader(lines(), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        taken.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # Behind a quote left open nothing is known to be a row: no sentence there may pass for skipped or read.
            if _is_open_quote(error) or len(taken) > 1:
                raise DecodeError(_describe_open_quote(source.format_location(line), reader.line_num, error)) from None
            yield line, DecodeError(f"not CSV: {error}; is a quote left open?"), taken[0]
            continue
        raw = "".join(taken)
        try:
            check_text(raw, source.encoding)
        except DecodeError as error:
            yield line, error, raw
        else:
            yield line, cells, raw


def _is_open_quote(error: csv.Error) -> bool:
    return str(error).startswith(("unexpected end of data", "field larger than field limit"))


def _describe_open_quote(location: str, last: int, error: csv.Error) -> str:
    return (
        f"{location}: a quote that opens in this row is not closed up to line {last} ({error}): close it, "
        'or write a word that is a quote as """", or a file without quoting as TSV; nothing behind it can be read'
    )


def read_plain_rows(source: TextSource) -> Iterator[TableRow]:
    for line, text in source.read_lines():
        try:
            check_text(text, source.encoding)
        except DecodeError as error:
            yield line, error, text
        else:
            yield line, [_unquote(cell) for cell in text.split("\t")] if text else [], text


def _unquote(cell: str) -> str:
    """Writers that quote only where they must write a cell with quotes inside as `"…""…"`."""
    if len(cell) > 2 and cell[0] == cell[-1] == '"':
        inner = cell[1:-1].replace('""', "\0")
        if '"' not in inner and "\0" in inner:
            return inner.replace("\0", '"')
    return cell
