"""Rows of CSV and TSV files, each with its place: a bad one costs itself, an open quote all that is behind it."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, TypeAlias

from service.errors import DecodeError, InvalidInput
from service.formats.records import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.formats.io.source import Source

# The line it starts at, its cells or what is wrong with it, and its text as it stands in the file.
Row: TypeAlias = tuple[int, list[str] | InvalidInput, str]


def quoted_rows(source: Source, delimiter: str) -> Iterator[Row]:
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for text in source.whole_lines():
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
            if _left_open(error) or len(taken) > 1:
                raise DecodeError(_open_quote(source.place(line), reader.line_num, error)) from None
            yield line, DecodeError(f"not CSV: {error}; is a quote left open?"), taken[0]
            continue
        raw = "".join(taken)
        try:
            check_text(raw, source.encoding)
        except DecodeError as error:
            yield line, error, raw
        else:
            yield line, cells, raw


def _left_open(error: csv.Error) -> bool:
    return str(error).startswith(("unexpected end of data", "field larger than field limit"))


def _open_quote(place: str, last: int, error: csv.Error) -> str:
    return (
        f"{place}: a quote that opens in this row is not closed up to line {last} ({error}): close it, "
        'or write a word that is a quote as """", or a file without quoting as TSV; nothing behind it can be read'
    )


def plain_rows(source: Source) -> Iterator[Row]:
    for line, text in source.lines():
        try:
            check_text(text, source.encoding)
        except DecodeError as error:
            yield line, error, text
        else:
            yield line, [_unquoted(cell) for cell in text.split("\t")] if text else [], text


def _unquoted(cell: str) -> str:
    """Writers that quote only where they must write a cell with quotes inside as `"…""…"`."""
    if len(cell) > 2 and cell[0] == cell[-1] == '"':
        inner = cell[1:-1].replace('""', "\0")
        if '"' not in inner and "\0" in inner:
            return inner.replace("\0", '"')
    return cell
