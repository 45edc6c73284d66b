"""File formats: plain ones and those of annotation platforms. One registry holds reader, writer and webhook of each."""

from __future__ import annotations

from service.formats.files import choose_format, read_records, read_sentences, write_sentences
from service.formats.format import Format
from service.formats.io.source import SourceLike
from service.formats.records import FileRecord, ReadOptions, with_file_location
from service.formats.registry import FORMATS

__all__ = [
    "FORMATS",
    "FileRecord",
    "Format",
    "ReadOptions",
    "SourceLike",
    "choose_format",
    "read_records",
    "read_sentences",
    "with_file_location",
    "write_sentences",
]
