"""Writes tables: one row per sentence, words and labels as JSON arrays; one row per word if all were read so."""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Final, TextIO

from service.errors import InvalidInput
from service.formats.io.spreadsheet_cells import neutralize_cell
from service.formats.plain.tabular.columns import (
    OPTIONAL_SENTENCE_COLUMNS,
    OPTIONAL_WORD_COLUMNS,
    SENTENCE_COLUMNS,
    WORD_COLUMNS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import WriteContext

_UNSAFE_IN_TSV: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_LOOKS_QUOTED: Final = re.compile(r'^".*"".*"$')  # the reader removes the quotes of such a cell


def write_csv(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    """Cells that a spreadsheet would run as a formula get an apostrophe; the reader removes it."""
    rows = csv.writer(stream, lineterminator="\n")

    def write_row(cells: Iterable[object]) -> None:
        rows.writerow([neutralize_cell(cell) if isinstance(cell, str) else cell for cell in cells])

    _write_table(write_row, list(sentences))


def write_tsv(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    """Writes no quotes, because most readers of TSV expect none: a word `"` stays `"`."""

    def write_row(cells: Iterable[object]) -> None:
        stream.write("\t".join(map(str, cells)) + "\n")

    rows = list(sentences)
    by_word = _is_row_per_word(rows)
    for sentence in rows:
        cells = (
            sentence.id,
            sentence.document,
            sentence.batch,
            sentence.annotator,
            sentence.source,
            *(sentence.tokens if by_word else ()),
        )
        if any(_UNSAFE_IN_TSV.search(cell) or _LOOKS_QUOTED.search(cell) for cell in cells if cell is not None):
            raise InvalidInput(
                "a tab, a line break or doubled quotes in it can't be written to a TSV file: use csv",
                sentence=sentence.id,
            )
    _write_table(write_row, rows)


def _is_row_per_word(sentences: Iterable[LabelledSentence]) -> bool:
    return all((sentence.meta or {}).get("rows") == "word" for sentence in sentences)


def _write_table(write_row: Callable[[Iterable[object]], object], sentences: list[LabelledSentence]) -> None:
    if sentences and _is_row_per_word(sentences):
        _write_word_rows(write_row, sentences)
        return
    has_batches = any(sentence.batch is not None for sentence in sentences)
    columns = (*SENTENCE_COLUMNS, *OPTIONAL_SENTENCE_COLUMNS) if has_batches else SENTENCE_COLUMNS
    write_row(columns)
    for sentence in sentences:
        fields = sentence.model_dump(mode="json")
        lists = {name: json.dumps(fields[name], ensure_ascii=False) for name in ("tokens", "labels")}
        write_row("" if value is None else value for value in ({**fields, **lists}[name] for name in columns))


def _write_word_rows(write_row: Callable[[Iterable[object]], object], sentences: list[LabelledSentence]) -> None:
    optional = [
        name for name in OPTIONAL_WORD_COLUMNS if any(getattr(sentence, name) is not None for sentence in sentences)
    ]
    write_row((*WORD_COLUMNS, *optional))
    for sentence in sentences:
        for index, (word, label) in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
            if not word or not label.strip() or {"\n", "\r"} & {*word, *label}:
                raise InvalidInput(
                    "a table with one row per word can't hold empty cells or line breaks: use jsonl",
                    sentence=sentence.id,
                    word=index,
                )
            write_row((sentence.id, word, label, *(getattr(sentence, name) or "" for name in optional)))
