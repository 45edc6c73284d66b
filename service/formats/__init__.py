"""Files in and out: readers by name, so that settings, command line and REST name them the same way.

>>> import io
>>> [sentence.labels for sentence in read_sentences(io.BytesIO(b"Oslo B-LOC\\nwins O\\n"))]
[('B-LOC', 'O')]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from service.errors import InvalidInput
from service.formats.detection import detect_format
from service.formats.io.source import SourceLike, TextSource, open_source, to_printable
from service.formats.plain import conll as columns
from service.formats.plain import jsonl, tabular
from service.formats.plain import spans as text_spans
from service.formats.platforms import doccano, huggingface, prodigy
from service.formats.platforms.argilla import read as argilla
from service.formats.platforms.label_studio import read as label_studio
from service.formats.records import FileRecord, ReadOptions, with_file_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from service.contracts import LabelledSentence
    from service.formats.platforms.common import ObjectConverter

__all__ = [
    "FORMATS",
    "FileRecord",
    "Format",
    "ReadOptions",
    "SourceLike",
    "read_records",
    "read_sentences",
    "with_file_location",
]

DEFAULT_READ_OPTIONS: Final = ReadOptions()


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write labelled sentences down. `convert` gives the sentences of one JSON object, where it has such."""

    name: str
    title: str
    read: Callable[[TextSource, ReadOptions], Iterator[FileRecord]]
    convert: ObjectConverter | None = None


FORMATS: Final[Mapping[str, Format]] = {
    form.name: form
    for form in (
        Format("conll", "CoNLL columns: a word a line, label last, blank line between sentences", columns.read),
        Format("jsonl", "JSON Lines or an array: {tokens, labels} or {tokens, ner_tags}", jsonl.read),
        Format("csv", "CSV with a header: one row a word or one row a sentence", tabular.read_csv),
        Format("tsv", "TSV with a header: one row a word or one row a sentence", tabular.read_tsv),
        Format(
            "label-studio",
            "Label Studio: tasks exported as JSON or JSON-MIN, or kept webhooks",
            label_studio.read,
            label_studio.from_object,
        ),
        Format(
            "argilla", "Argilla 2: records with their responses, or kept webhooks", argilla.read, argilla.from_record
        ),
        Format("doccano", "doccano: JSON Lines with label or entities, or CoNLL", doccano.read, doccano.from_line),
        Format("prodigy", "Prodigy: JSON Lines as db-out writes them", prodigy.read, prodigy.from_line),
        Format(
            "huggingface",
            "Hugging Face: {tokens, ner_tags}, rows or columns",
            huggingface.read,
            huggingface.from_object,
        ),
        Format("spans", "JSON Lines: {text, spans} with offsets of characters", text_spans.read, text_spans.from_line),
    )
}


def read_records(
    source: SourceLike,
    *,
    format: str | None = None,  # noqa: A002 - the name users know it by
    options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> Iterator[FileRecord]:
    """Reads a file, `-` (standard input) or binary stream piece by piece; a bad sentence is a record with an error.

    What makes the whole file unreadable (no such file, no label column, damaged gzip) is raised.
    """
    if format is not None and format not in FORMATS:
        raise InvalidInput(f"format {format!r} is not known: choose one of {', '.join(FORMATS)}", field="format")
    options = replace(options, id_prefix=to_printable(options.id_prefix))  # mostly the file's name
    with open_source(source, encoding=options.encoding) as opened:
        chosen = FORMATS[format if format is not None else detect_format(opened.name, opened.head)]
        yield from chosen.read(opened, options)


def read_sentences(
    source: SourceLike,
    *,
    format: str | None = None,  # noqa: A002 - the name users know it by
    options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> Iterator[LabelledSentence]:
    """Like `read_records`, for those who want to stop at the first bad sentence: its error is raised."""
    for record in read_records(source, format=format, options=options):
        if record.error is not None:
            raise record.error
        if record.sentence is not None:
            yield record.sentence
