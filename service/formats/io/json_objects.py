"""JSON objects from a source, one after the other: a line each, or in an array, or over several lines.

Nothing is read whole: exports have hundreds of thousands of tasks in one array.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from service.errors import DecodeError, InvalidInput
from service.formats.io.source import MAX_LINE
from service.formats.records import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.formats.io.source import Source

NO_OBJECT: Final = "not a JSON object"
_PIECE: Final = 64 * 1024
_BETWEEN: Final = re.compile(r"[\s,]*")
_BLANK: Final = re.compile(r"\s*")

# The line it starts at, and the object or what is wrong with it.
Numbered = tuple[int, dict[str, Any] | InvalidInput]


def read_objects(source: Source) -> Iterator[Numbered]:
    """The objects of a source; what ends the reading of the whole (an array that breaks off) is raised."""
    first = next((line.strip() for line in source.head.splitlines() if line.strip()), "")
    if first.startswith("[") or first == "{":
        yield from _document(source)
        return
    for number, line in source.lines():
        if line.strip():
            yield number, _object(line, source)


def parse(text: str) -> Any:  # noqa: ANN401 - any JSON
    """JSON, or a DecodeError that says where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_json(error) from None


def _object(line: str, source: Source) -> dict[str, Any] | InvalidInput:
    try:
        check_text(line, source.encoding)
        value = parse(line)
    except InvalidInput as error:
        return error
    return value if isinstance(value, dict) else DecodeError(f"{NO_OBJECT}: write one a line, or all in an array")


def _not_json(error: Exception) -> DecodeError:
    reason = getattr(error, "msg", "too deep or too large")
    column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
    return DecodeError(f"not JSON: {reason}{column}")


def _document(source: Source) -> Iterator[Numbered]:
    """Objects in arrays or just behind each other. Behind what is no JSON nothing can be known to be one."""
    reading = _Reading(source)
    array = False
    while char := reading.skip(_BETWEEN if array else _BLANK):
        if char in "[]" and array == (char == "]"):
            array = not array
            reading.take(1)
            continue
        at = reading.line
        text, value = reading.value()
        if not isinstance(value, dict):
            yield at, DecodeError(f"{NO_OBJECT}: write one a line, or all in an array")
            continue
        try:
            check_text(text, source.encoding)
        except DecodeError as error:
            yield at, error
        else:
            yield at, value
    if array:
        raise DecodeError(f"{source.place(reading.line)}: the JSON array is not closed: is the file cut short?")


class _Reading:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = ""
        self._at = 0
        self._whole = False
        self._decoder = json.JSONDecoder()
        self.line = 1

    def skip(self, what: re.Pattern[str]) -> str:
        """Goes past it; the next character, or nothing at the end."""
        while True:
            found = what.match(self._text, self._at)
            self.take(found.end() - self._at if found else 0)
            if self._at < len(self._text) or not self._more(_PIECE):
                return self._text[self._at : self._at + 1]

    def take(self, size: int) -> None:
        self.line += self._text.count("\n", self._at, self._at + size)
        self._at += size

    def value(self) -> tuple[str, Any]:
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                waiting = len(self._text) - self._at
                broken = isinstance(error, RecursionError) or not isinstance(error, json.JSONDecodeError)
                # Twice as much each time: reading a large object costs no more than a few parses.
                if broken or waiting > MAX_LINE or not self._more(max(_PIECE, waiting)):
                    raise DecodeError(f"{self._source.place(self.line)}: {_not_json(error)}") from None
                continue
            # A number or name at the very end of what was read may go on.
            if not isinstance(value, dict | list) and end == len(self._text) and self._more(_PIECE):
                continue
            text = self._text[self._at : end]
            self.take(end - self._at)
            return text, value

    def _more(self, size: int) -> bool:
        if self._whole:
            return False
        piece = self._source.text.read(size)
        self._whole = not piece
        self._text = self._text[self._at :] + piece
        self._at = 0
        return bool(piece)
