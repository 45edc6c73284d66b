"""Reads Hugging Face datasets: `tokens` and `ner_tags`, numbered or named.

Reads JSON Lines (`Dataset.to_json`), an array of rows, columns (`Dataset.to_dict`), and the rows of the dataset viewer's
API, which has the names of labels in `features`. Without them `--label-names` names the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.label_names import LABEL_FIELDS
from service.formats.plain.jsonl import convert_rows, get_word_fields, read_rows
from service.formats.records import find_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.conversion import ConvertedFields
    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord, ReadOptions

PLATFORM: Final = "huggingface"


def has_columns_or_rows(record: Mapping[str, Any]) -> bool:
    """Whether it holds columns (`Dataset.to_dict`), or rows of the dataset viewer."""
    words = find_words(record)
    if words and isinstance(words[0], list):
        return True
    return isinstance(record.get("rows"), list) and "features" in record


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    return read_rows(source, options, _extract_rows)


def from_object(record: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    """The sentences of a row, of columns or of a viewer response, which must hold the names of numbered labels itself."""
    return convert_rows(record, options, _extract_rows)


def _extract_rows(record: Mapping[str, Any], options: ReadOptions) -> Iterator[Mapping[str, Any]]:
    rows = record.get("rows")
    if isinstance(rows, list):
        for index, value in enumerate(rows):
            row = value.get("row") if isinstance(value, dict) else None
            if not isinstance(row, dict):
                raise InvalidInput("it holds no `row`", field=f"rows.{index}")
            yield row
        return
    words = next((record[name] for name in get_word_fields(options) if name in record), None)
    if isinstance(words, list) and words and isinstance(words[0], list):
        yield from _transpose_columns(record, words)
    else:
        yield record


def _transpose_columns(record: Mapping[str, Any], words: list[Any]) -> Iterator[Mapping[str, Any]]:
    columns = {name: values for name, values in record.items() if isinstance(values, list)}
    for name, values in columns.items():
        if name in LABEL_FIELDS and len(values) != len(words):
            raise InvalidInput(f"{len(values)} rows where the words have {len(words)}", field=name)
    for index in range(len(words)):
        yield {name: values[index] for name, values in columns.items() if len(values) == len(words)}
