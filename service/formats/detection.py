"""Finds the format of a file or JSON object: by file extension if that is certain, else by content."""

from __future__ import annotations

import json
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from service.formats.io.json_objects import find_first_line, is_json
from service.formats.meta import DEFAULT_FORMAT
from service.formats.plain.tabular.read import detect_delimiter
from service.formats.registry import FORMATS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_KEY: Final = re.compile(r'"(\w+)"\s*:')
# A .tsv file may hold CoNLL columns or a table with a header, a .txt file anything: content decides.
_FORMAT_BY_EXTENSION: Final = {extension: form.name for form in FORMATS.values() for extension in form.extensions}


def detect_format(name: str, head: str) -> str:
    """The name of the format of a file with this name and these first characters; CoNLL if nothing else fits."""
    suffixes = [suffix.lower() for suffix in PurePath(name).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    form = _FORMAT_BY_EXTENSION.get(suffixes[-1]) if suffixes else None
    if form is not None:
        return detect_json_format(head) if form == DEFAULT_FORMAT else form
    if is_json(head):
        return detect_json_format(head)
    delimiter = detect_delimiter(find_first_line(head))
    if delimiter is None:
        return "conll"
    return "tsv" if delimiter == "\t" else "csv"


def detect_json_format(head: str) -> str:
    """The format of the first object of a file."""
    text = head.lstrip("\ufeff[ \t\r\n")
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return _detect_by_keys(set(_KEY.findall(text)))  # the object is longer than the head: use the keys seen so far
    return detect_object_format(value) if isinstance(value, dict) else DEFAULT_FORMAT


def detect_object_format(record: Mapping[str, Any]) -> str:
    """The format whose test of the values passes, else the first one with a matching signature."""
    by_values = (form.name for form in FORMATS.values() if form.is_object is not None and form.is_object(record))
    return next(by_values, None) or _detect_by_keys(record)


def _detect_by_keys(keys: Collection[str]) -> str:
    present = set(keys)
    matching = (form.name for form in FORMATS.values() if any(present >= signature for signature in form.signatures))
    return next(matching, DEFAULT_FORMAT)
