"""Which format a file is in: by its name where that is certain, else by its first lines; JSON by its first object."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from service.formats.plain.tabular import detect_delimiter
from service.formats.records import LABEL_FIELDS, WORD_FIELDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_JSON_START: Final = re.compile(r'^\{\s*("|\}|$)|^\[\s*(\{\s*("|$)|$)')
_KEY: Final = re.compile(r'"(\w+)"\s*:')
# A .tsv may be columns or a table with a header, a .txt anything: those are decided by content.
FORMAT_BY_EXTENSION: Final = {
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

# Keys that, where all of a set are there, only one platform writes; the more telling ones first.
_KEY_SIGNATURES: Final = (
    (
        "label-studio",
        (
            {"action", "project"},
            {"action", "annotation"},
            {"action", "annotations"},
            {"annotations", "data"},
            {"annotations", "was_cancelled"},  # of a long task the data are far behind
            {"annotation_id"},
        ),
    ),
    ("argilla", ({"fields", "responses"}, {"type", "timestamp", "data"})),
    ("prodigy", ({"text", "answer"}, {"text", "_task_hash"}, {"text", "_input_hash"})),
    ("spans", ({"text", "spans"},)),
    ("doccano", ({"text", "label"}, {"text", "labels"}, {"text", "entities"})),
)


def detect_format(name: str, head: str) -> str:
    """The format's name in the registry; columns where nothing speaks for another."""
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    told = FORMAT_BY_EXTENSION.get(suffixes[-1]) if suffixes else None
    if told is not None:
        return detect_json_format(head) if told == "jsonl" else told
    if is_json(head):
        return detect_json_format(head)
    delimiter = detect_delimiter(_get_first_line(head))
    if delimiter is None:
        return "conll"
    return "tsv" if delimiter == "\t" else "csv"


def is_json(head: str) -> bool:
    return _JSON_START.match(_get_first_line(head).strip()) is not None


def _get_first_line(head: str) -> str:
    return next((line for line in head.splitlines() if line.strip()), "")


def detect_json_format(head: str) -> str:
    """Whose the first object is."""
    text = head.lstrip("\ufeff[ \t\r\n")
    try:
        found, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return _detect_by_keys(set(_KEY.findall(text)))  # it is longer than the head: any key of it that was seen
    return detect_object_format(found) if isinstance(found, dict) else "jsonl"


def detect_object_format(record: Mapping[str, Any]) -> str:
    words = next((record[name] for name in WORD_FIELDS if isinstance(record.get(name), list)), None)
    first = words[0] if words else None
    if isinstance(first, list) or (isinstance(record.get("rows"), list) and "features" in record):
        return "huggingface"
    if isinstance(first, dict):
        return "prodigy"
    if words is not None and any(name in record for name in LABEL_FIELDS):
        return "jsonl"
    return _detect_by_keys(record)


def _detect_by_keys(keys: Collection[str]) -> str:
    """The first format one of whose signs is there; plain sentences where none is."""
    there = set(keys)
    return next((name for name, signs in _KEY_SIGNATURES if any(there >= sign for sign in signs)), "jsonl")
