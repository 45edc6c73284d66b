"""Divides a large body into its records, each of which is parsed by itself.

{"sentences": [A, B, C], "method": "…"}  ─▶  {"sentences": [text of A, of B, of C], "method": "…"}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.api.http.json_text.parse import parse_json
from service.api.http.json_text.scan import (
    count_elements,
    find_members,
    find_outer_structure,
    measure_shape,
    split_list,
)
from service.api.http.problems import TooLargeError

if TYPE_CHECKING:
    from service.api.http.json_text.scan import OuterStructure

LARGE_BYTES: Final = 200_000  # 13 ms of parsing
# The limits of what is parsed at once, in which no other thread runs: about 0.1 s.
MAX_RECORD_NAMES: Final = 100_000
MAX_RECORD_VALUES: Final = 1_100_000  # a sentence may have 1,000,000 probabilities
MAX_FIELDS: Final = 1_000  # of a body, beside its list


def check_record_shape(raw: bytes | memoryview, *, subject: str = "the body", field: str | None = None) -> None:
    """Raises `TooLargeError` for JSON that takes too long to parse."""
    if len(raw) <= LARGE_BYTES:
        return
    shape = measure_shape(raw)
    for count, limit, name in (
        (shape.names, MAX_RECORD_NAMES, "names of fields"),
        (shape.values, MAX_RECORD_VALUES, "values"),
    ):
        if count > limit:
            raise TooLargeError(
                f"{subject} has {count:,} {name}, the limit is {limit:,}: send less at once", field=field
            )


def split_records(raw: bytes, list_field: str, max_items: int) -> object:
    """The body as `parse_json` returns it, but each element of its list as a memoryview of its text.

    The list is the body itself or the value of `list_field`. Any other body is parsed as a whole.
    """
    outer = find_outer_structure(raw)
    found = _find_list(raw, outer, list_field)
    if found is None:
        check_record_shape(raw)
        return parse_json(raw)
    start, end, level = found
    count = count_elements(raw, outer, start, end, level=level)
    if count > max_items:
        kind, field = ("records", None) if level == 1 else (list_field, list_field)
        raise TooLargeError(
            f"{count:,} {kind}, the limit is {max_items:,} per request: send several requests", field=field
        )
    ranges = split_list(raw, outer, start, end, level=level)
    text = memoryview(raw)
    elements = [text[first:last] for first, last in ranges]
    beside = raw[:start] + b"[]" + raw[end:]
    check_record_shape(beside)
    body = parse_json(beside)
    if isinstance(body, dict):
        body[list_field] = elements
        return body
    return elements


def _find_list(raw: bytes, outer: OuterStructure, list_field: str) -> tuple[int, int, int] | None:
    """Start, end and level of the list of records."""
    body = raw.strip()
    start = len(raw) - len(raw.lstrip())
    if body.startswith(b"["):
        return start, start + len(body), 1
    if not body.startswith(b"{"):
        return None
    found = None
    for (name_start, name_end), (value_start, value_end) in find_members(raw, outer, MAX_FIELDS) or ():
        is_list = raw[value_start : value_start + 1] == b"["
        if is_list and value_end - value_start > 1 and parse_json(raw[name_start:name_end]) == list_field:
            found = value_start, value_end, 2  # of two members with the same name the last counts, as in `parse_json`
    return found
