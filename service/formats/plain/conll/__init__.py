"""CoNLL columns: one word per line, its label in the last column, a blank line between sentences."""

from __future__ import annotations

from typing import Final

from service.formats.format import Format
from service.formats.plain.conll import read, write

FORMAT: Final = Format(
    name=read.NAME,
    read=read.read,
    write=write.write,
    extensions=(".conll", ".conll03", ".iob", ".iob2", ".bio", ".bilou"),
    write_extension=".conll",
)
