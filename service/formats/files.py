"""Reads and writes files of labelled sentences in any format. Every file that is written can be read again.

>>> import io
>>> [sentence.labels for sentence in read_sentences(io.BytesIO(b"Oslo B-LOC\\nwins O\\n"))]
[('B-LOC', 'O')]
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TextIO

from service.errors import InvalidInput
from service.formats.detection import detect_format
from service.formats.io.source import SourceLike, open_source, to_printable
from service.formats.meta import DEFAULT_FORMAT, get_original_format
from service.formats.records import FileRecord, ReadOptions
from service.formats.registry import FORMATS
from service.formats.text.restored_text import WriteContext

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.contracts import LabelledSentence

DEFAULT_READ_OPTIONS: Final = ReadOptions()


def read_records(
    source: SourceLike,
    *,
    format: str | None = None,  # noqa: A002 - the name users know it by
    options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> Iterator[FileRecord]:
    """Streams a file, `-` (standard input) or binary stream. An invalid sentence is a record with an error.

    Errors that make the whole file unreadable (no such file, no label column, damaged gzip) are raised.
    """
    if format is not None and format not in FORMATS:
        raise InvalidInput(f"format {format!r} is not known: choose one of {', '.join(FORMATS)}", field="format")
    options = replace(options, id_prefix=to_printable(options.id_prefix))  # usually the name of the file
    with open_source(source, encoding=options.encoding) as opened:
        name = format if format is not None else detect_format(opened.name, opened.head)
        yield from FORMATS[name].read(opened, options)


def read_sentences(
    source: SourceLike,
    *,
    format: str | None = None,  # noqa: A002 - the name users know it by
    options: ReadOptions = DEFAULT_READ_OPTIONS,
) -> Iterator[LabelledSentence]:
    """Like `read_records`, but raises the error of the first invalid sentence."""
    for record in read_records(source, format=format, options=options):
        if record.error is not None:
            raise record.error
        if record.sentence is not None:
            yield record.sentence


def write_sentences(
    stream: TextIO, form: str, sentences: Iterable[LabelledSentence], context: WriteContext | None = None
) -> None:
    """Writes sentences in a format. Open the stream with `newline=""`. `context` collects notes about changes."""
    FORMATS[form].write(stream, sentences, context or WriteContext())


def choose_format(sentence: LabelledSentence) -> str:
    """The format to export a sentence in if the user names none: its original one."""
    original = get_original_format(sentence)
    return original if original in FORMATS else DEFAULT_FORMAT
