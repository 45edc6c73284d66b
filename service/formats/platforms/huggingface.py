"""Hugging Face data sets: `tokens` and `ner_tags`, numbered or named.

Read are JSON Lines (`Dataset.to_json`), an array of rows, columns as `Dataset.to_dict` gives them, and the rows of the
dataset viewer's API, which tell the labels' names in `features`. Without them `--label-names` says what numbers mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.plain.jsonl import read_rows, rows_of, word_fields
from service.formats.records import LABEL_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.io.source import Source
    from service.formats.platforms.common import Converted
    from service.formats.records import Options, Record

PLATFORM: Final = "huggingface"


def read(source: Source, options: Options) -> Iterator[Record]:
    return read_rows(source, options, _rows)


def from_object(found: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    """The sentences of a row, of columns or of an answer of the viewer, which must tell the labels' names itself."""
    return rows_of(found, options, _rows)


def _rows(found: Mapping[str, Any], options: Options) -> Iterator[Mapping[str, Any]]:
    rows = found.get("rows")
    if isinstance(rows, list):
        for place, given in enumerate(rows):
            row = given.get("row") if isinstance(given, dict) else None
            if not isinstance(row, dict):
                raise InvalidInput("it holds no `row`", field=f"rows.{place}")
            yield row
        return
    words = next((found[name] for name in word_fields(options) if name in found), None)
    if isinstance(words, list) and words and isinstance(words[0], list):
        yield from _columns(found, words)
    else:
        yield found


def _columns(found: Mapping[str, Any], words: list[Any]) -> Iterator[Mapping[str, Any]]:
    columns = {name: values for name, values in found.items() if isinstance(values, list)}
    for name, values in columns.items():
        if name in LABEL_FIELDS and len(values) != len(words):
            raise InvalidInput(f"{len(values)} rows where the words have {len(words)}", field=name)
    for place in range(len(words)):
        yield {name: values[place] for name, values in columns.items() if len(values) == len(words)}
