"""Converts foreign JSON objects to the fields of sentences, and reads files of such objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from service.errors import InvalidInput
from service.formats.io.json_objects import read_objects
from service.formats.io.json_values import parse_timestamp, require_text, to_microseconds
from service.formats.records import FileRecord, ReadOptions, make_record, reject
from service.formats.text.alignment import align_spans
from service.formats.text.offsets import CHARACTERS, OffsetUnit, TextSpan

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from service.formats.io.json_objects import NumberedObject
    from service.formats.io.source import TextSource
    from service.formats.text.word_splitter import CharacterRange

# The fields of one sentence, or the reason why an annotation cannot be converted.
ConvertedFields: TypeAlias = dict[str, Any] | InvalidInput
ObjectConverter: TypeAlias = "Callable[[Mapping[str, Any], ReadOptions], Iterable[ConvertedFields]]"


def build_reader(
    convert: ObjectConverter, iterate_objects: Callable[[TextSource], Iterator[NumberedObject]] = read_objects
) -> Callable[[TextSource, ReadOptions], Iterator[FileRecord]]:
    """A reader of files with JSON objects, each of which may hold several sentences."""

    def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
        number = 0
        for line, record in iterate_objects(source):
            location = source.format_location(line)
            for fields in convert_object(convert, record, options):
                number += 1
                if isinstance(fields, InvalidInput):
                    yield reject(fields, location)
                else:
                    yield make_record(fields, location=location, number=number, options=options)

    return read


def convert_object(
    convert: ObjectConverter, record: dict[str, Any] | InvalidInput, options: ReadOptions
) -> Iterator[ConvertedFields]:
    """Yields what the converter yields. An error that the converter raises is about the whole object and ends it."""
    if isinstance(record, InvalidInput):
        yield record
        return
    try:
        yield from convert(record, options)
    except InvalidInput as error:
        yield error


def check_label_option(source: TextSource, options: ReadOptions, known_names: Collection[str]) -> None:
    """Raises if `options.label` names no control or question of a file that has some: it is probably misspelt.

    A single annotation does not prove that, because it may have no span of that control.
    """
    if options.label is not None and known_names and options.label not in known_names:
        names = ", ".join(sorted(known_names)[:10])
        raise InvalidInput(f"{source.name}: no span in it is of {options.label}, only of {names}: name one of these")


def build_labelled_fields(
    text: object,
    spans: Sequence[TextSpan],
    options: ReadOptions,
    *,
    field: str = "text",
    words: Sequence[CharacterRange] | None = None,
    splitter: str | None = None,
    unit: OffsetUnit = CHARACTERS,
) -> dict[str, Any]:
    """The fields `tokens`, `labels` and `meta` of a text with spans. `unit` is what the platform's editor counts in."""
    named = {"splitter": splitter} if splitter is not None else {}
    aligned = align_spans(
        require_text(text, field), spans, scheme=options.scheme, words=words, field=field, unit=unit, **named
    )
    return {"tokens": aligned.tokens, "labels": aligned.labels, "meta": aligned.meta}


def build_revision_fields(value: object, field: str) -> dict[str, Any]:
    """`revision` and `annotated_at` from a time; nothing if there is no time."""
    if value is None:
        return {}
    timestamp = parse_timestamp(value, field)
    return {"revision": to_microseconds(timestamp), "annotated_at": timestamp.isoformat()}
