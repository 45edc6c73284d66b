"""Tables with a header: CSV and TSV, one row per word or one row per sentence."""

from __future__ import annotations

from typing import Final

from service.formats.format import Format
from service.formats.plain.tabular import read, write

CSV_FORMAT: Final = Format(
    name="csv",
    read=read.read_csv,
    write=write.write_csv,
    extensions=(".csv",),
    write_extension=".csv",
)
TSV_FORMAT: Final = Format(
    name="tsv",
    read=read.read_tsv,
    write=write.write_tsv,
    write_extension=".tsv",
)
