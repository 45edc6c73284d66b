"""Streams the rows of CSV and TSV files. A bad row is one error; after an open quote the rest is unreadable."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TypeAlias

from service.errors import DecodeError, InvalidInput
from service.formats.records import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.formats.io.source import TextSource

# The line at which it starts, its cells or their error, and its text in the file.
TableRow: TypeAlias = tuple[int, list[str] | InvalidInput, str]


def read_quoted_rows(source: TextSource, delimiter: str) -> Iterator[TableRow]:
    row_lines: list[str] = []

    def read_lines() -> Iterator[str]:
        for text in source.read_raw_lines():
            row_lines.append(text)
            yield text

    reader = csv.reader(read_lines(), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        row_lines.clear()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # After an open quote the rows are unknown: to go on would skip or misread sentences silently.
            if _is_open_quote(error) or len(row_lines) > 1:
                raise DecodeError(_describe_open_quote(source.format_location(line), reader.line_num, error)) from None
            yield line, DecodeError(f"not CSV: {error}; is a quote left open?"), row_lines[0]
            continue
        raw = "".join(row_lines)
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
        'or write a word that is a quote as """", or a file without quoting as TSV; nothing after it can be read'
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
    """Undoes minimal quoting, which writes a cell that contains quotes as `"…""…"`."""
    if len(cell) > 2 and cell[0] == cell[-1] == '"':
        inner = cell[1:-1].replace('""', "\0")
        if '"' not in inner and "\0" in inner:
            return inner.replace("\0", '"')
    return cell
