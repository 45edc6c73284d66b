"""Which format a file is in: by its name where that is certain, else by its first lines."""

from __future__ import annotations

import re
from pathlib import PurePath

from service.formats.tabular import find_header

_JSON_START = re.compile(r'^\{\s*("|\}|$)')
# A .tsv may be columns or a table with a header, a .txt anything: those are decided by content.
BY_EXTENSION = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".conll": "conll",
    ".conll03": "conll",
    ".iob": "conll",
    ".iob2": "conll",
    ".bio": "conll",
    ".bilou": "conll",
}


def detect_format(name: str, head: str) -> str:
    """The format's name in the registry; columns where nothing speaks for another."""
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if suffixes and suffixes[-1] in BY_EXTENSION:
        return BY_EXTENSION[suffixes[-1]]
    first = next((line for line in head.splitlines() if line.strip()), "")
    if _JSON_START.match(first.strip()) or first.lstrip().startswith('[{"'):
        return "jsonl"
    delimiter = find_header(first)
    if delimiter is None:
        return "conll"
    return "tsv" if delimiter == "\t" else "csv"
