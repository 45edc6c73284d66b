"""Hugging Face datasets: `tokens` and `ner_tags`, as rows or columns."""

from __future__ import annotations

from typing import Final

from service.formats.format import Format
from service.formats.platforms.huggingface import read, write

FORMAT: Final = Format(
    name=read.PLATFORM,
    read=read.read,
    write=write.write,
    convert=read.from_object,
    is_object=read.has_columns_or_rows,
    record_keys=(("tokens", "ner_tags"), ("rows",)),
)
