"""JSON Lines, or an array: one object per sentence with `tokens` (or `words`) and `labels` (or `ner_tags`, `tags`).

Other fields of a sentence (`id`, `annotator`, `meta`, …) are copied, unknown ones are ignored. The names of numbered
labels come from the options, or from a `features` or `names` field as in Hugging Face datasets, in the record itself
or in an earlier one (a first line that holds nothing else is a header).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.errors import InvalidInput
from service.formats.format import Format
from service.formats.io.json_objects import read_objects
from service.formats.label_names import LABEL_FIELDS, find_label_names, resolve_label_names
from service.formats.meta import DEFAULT_FORMAT, pack_extra_fields
from service.formats.records import (
    ID_FIELDS,
    PASSTHROUGH_FIELDS,
    WORD_FIELDS,
    FileRecord,
    ReadOptions,
    find_batch,
    find_document,
    find_words,
    make_record,
    reject,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from service.contracts import LabelledSentence
    from service.formats.io.source import TextSource
    from service.formats.text.restored_text import WriteContext

HUGGINGFACE_LABEL_FIELD: Final = "ner_tags"


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    """Reads a JSON Lines file, or an array, record by record."""
    return read_rows(source, options, lambda record, _: (record,))


def read_rows(
    source: TextSource,
    options: ReadOptions,
    extract_rows: Callable[[Mapping[str, Any], ReadOptions], Iterable[Mapping[str, Any]]],
) -> Iterator[FileRecord]:
    """Reads objects that hold one sentence or several; `extract_rows` yields these."""
    number = 0
    for line, record in read_objects(source):
        location = source.format_location(line)
        for fields in _convert_sentences(record, options, extract_rows):
            if isinstance(fields, tuple):
                options = replace(options, label_names=fields)
                continue
            number += 1
            if isinstance(fields, InvalidInput):
                yield reject(fields, location)
            else:
                yield make_record(fields, location=location, number=number, options=options)


def _convert_sentences(
    record: Mapping[str, Any] | InvalidInput,
    options: ReadOptions,
    extract_rows: Callable[[Mapping[str, Any], ReadOptions], Iterable[Mapping[str, Any]]],
) -> Iterator[dict[str, Any] | tuple[str, ...] | InvalidInput]:
    """Yields the fields of sentences; before them the names of labels, if the object has them."""
    if isinstance(record, InvalidInput):
        yield record
        return
    names = () if options.label_names else find_label_names(record, options.label)
    if names:
        yield names
    try:
        for row in extract_rows(record, options):
            if names and row is record and not any(name in row for name in get_word_fields(options)):
                continue  # a header
            yield build_sentence_fields(row, options, names)
    except InvalidInput as error:
        yield error


def convert_rows(
    record: Mapping[str, Any],
    options: ReadOptions,
    extract_rows: Callable[[Mapping[str, Any], ReadOptions], Iterable[Mapping[str, Any]]],
) -> Iterator[dict[str, Any] | InvalidInput]:
    """The same for a single object: its names of labels apply to itself only."""
    for fields in _convert_sentences(record, options, extract_rows):
        if isinstance(fields, tuple):
            options = replace(options, label_names=fields)
        elif isinstance(fields, dict) and isinstance(fields.get("labels"), list):
            try:
                yield {**fields, "labels": resolve_label_names(fields["labels"], options.label_names)}
            except InvalidInput as error:
                yield error
        else:
            yield fields


def get_word_fields(options: ReadOptions) -> tuple[str, ...]:
    return (options.word,) if options.word is not None else WORD_FIELDS


def build_sentence_fields(
    record: Mapping[str, Any], options: ReadOptions, names: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The fields of a sentence under their standard names. `names`: those of numbered labels, if the object has them."""
    fields = {name: record[name] for name in PASSTHROUGH_FIELDS if record.get(name) is not None}
    identity = next((record[name] for name in ID_FIELDS if record.get(name) not in (None, "")), None)
    fields["id"] = str(identity) if isinstance(identity, int) and not isinstance(identity, bool) else identity
    document = find_document(record)
    if document is not None:
        fields["document"] = document
    batch = find_batch(record)
    if batch is not None:
        fields["batch"] = batch
    label_fields = (options.label,) if options.label is not None else LABEL_FIELDS
    for ours, theirs in (("tokens", get_word_fields(options)), ("labels", label_fields)):
        present = next((name for name in theirs if record.get(name) is not None), None)
        if present is not None:
            fields[ours] = record[present]
        elif not fields.get("deleted"):
            raise InvalidInput(_describe_missing_field(ours, theirs, record), field=ours)
        if present == HUGGINGFACE_LABEL_FIELD:
            fields["meta"] = _add_huggingface_meta(fields.get("meta"), record, options, names)
    return fields


def _add_huggingface_meta(
    meta_given: object, record: Mapping[str, Any], options: ReadOptions, names: tuple[str, ...]
) -> object:
    """What an export needs to write the row again: the names of numbered labels, and the other columns."""
    if meta_given is not None and (not isinstance(meta_given, dict) or "format" in meta_given):
        return meta_given
    numbers = record[HUGGINGFACE_LABEL_FIELD]
    meta: dict[str, Any] = {"format": "huggingface"}
    if isinstance(numbers, list) and any(isinstance(number, int) for number in numbers):
        meta["label_names"] = list(names or options.label_names)
    known = {*get_word_fields(options), HUGGINGFACE_LABEL_FIELD, "features", "names"}
    return (
        (meta_given or {})
        | meta
        | pack_extra_fields({name: value for name, value in record.items() if name not in known})
    )


def _describe_missing_field(ours: str, theirs: tuple[str, ...], record: Mapping[str, Any]) -> str:
    names = ", ".join(list(record)[:10]) or "nothing"
    option = "--word-column" if ours == "tokens" else "--label-column"
    return f"none of {', '.join(theirs)} is there (the object has {names}): name the field with {option}"


def has_words_and_labels(record: Mapping[str, Any]) -> bool:
    """Whether it is one sentence. Columns of Hugging Face and Prodigy's tokens are lists and objects, not words."""
    words = find_words(record)
    if words is None or (words and isinstance(words[0], list | dict)):
        return False
    return any(name in record for name in LABEL_FIELDS)


def write(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    stream.writelines(
        sentence.model_dump_json(exclude_none=True, exclude={"update", "deleted"}) + "\n" for sentence in sentences
    )


FORMAT: Final = Format(
    name=DEFAULT_FORMAT,
    read=read,
    write=write,
    extensions=(".jsonl", ".ndjson", ".json"),
    is_object=has_words_and_labels,
)
