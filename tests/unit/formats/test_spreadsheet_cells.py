"""Cells of CSV that spreadsheets would run: written as text, and read back as they were."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.contracts import LabelledSentence
from service.formats import read_sentences, write_sentences
from service.formats.io.spreadsheet_cells import neutralize_cell, restore_cell

if TYPE_CHECKING:
    from pydantic import JsonValue

DANGEROUS = ("=", "+", "-", "@", "\t", "\r")
WORDS = ("=1+1", "+49", "-", "@home", "'=quoted", "''-", "it's", "'tis", "plain")


@pytest.mark.parametrize("first", DANGEROUS)
def test_a_formula_is_text(first: str) -> None:
    assert neutralize_cell(f"{first}1") == f"'{first}1"
    assert neutralize_cell("1" + first) == "1" + first


@given(st.text(alphabet="=+-@\t\r'ab"))
def test_it_is_reversible(text: str) -> None:
    assert restore_cell(neutralize_cell(text)) == text
    assert not neutralize_cell(text).startswith(DANGEROUS)


@pytest.mark.parametrize("meta", [None, {"format": "csv", "rows": "word"}])
def test_a_table_is_safe_and_reads_back(meta: dict[str, JsonValue] | None) -> None:
    sentence = LabelledSentence(
        id="=id", tokens=WORDS, labels=("O",) * len(WORDS), annotator=None if meta else "@ada", meta=meta
    )
    stream = io.StringIO(newline="")
    write_sentences(stream, "csv", [sentence])
    cells = [cell for row in csv.reader(io.StringIO(stream.getvalue())) for cell in row]
    assert not [cell for cell in cells if cell.startswith(DANGEROUS)]
    (found,) = read_sentences(io.BytesIO(stream.getvalue().encode()), format="csv")
    assert (found.id, found.tokens, found.annotator) == (sentence.id, sentence.tokens, sentence.annotator)


def test_a_table_of_somebody_else_is_read_as_it_is() -> None:
    table = b"Sentence #,Word,Tag\n1,'=x,O\n"
    (found,) = read_sentences(io.BytesIO(table), format="csv")
    assert found.tokens == ("'=x",)
