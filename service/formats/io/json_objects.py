"""JSON objects from a source, one after the other: a line each, or in an array, or over several lines.

Nothing is read whole: exports have hundreds of thousands of tasks in one array.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TextIO

from service.errors import DecodeError, InvalidInput
from service.formats.io.source import MAX_LINE
from service.formats.records import check_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.io.source import TextSource

NOT_AN_OBJECT: Final = "not a JSON object"
_CHUNK_SIZE: Final = 64 * 1024
_JSON_START: Final = re.compile(r'^\{\s*("|\}|$)|^\[\s*(\{\s*("|$)|$)')
_SEPARATORS: Final = re.compile(r"[\s,]*")
_WHITESPACE: Final = re.compile(r"\s*")

# The line it starts at, and the object or what is wrong with it.
NumberedObject = tuple[int, dict[str, Any] | InvalidInput]


def is_json(head: str) -> bool:
    """Whether a text that begins like this is JSON: an object, an array, or one object per line."""
    return _JSON_START.match(find_first_line(head).strip()) is not None


def find_first_line(head: str) -> str:
    return next((line for line in head.splitlines() if line.strip()), "")


def read_objects(source: TextSource) -> Iterator[NumberedObject]:
    """Yields the objects of a source. An error that ends the whole file (an array cut short) is raised."""
    first = find_first_line(source.head).strip()
    if first.startswith("[") or first == "{":
        yield from _read_document(source)
        return
    for number, line in source.read_lines():
        if line.strip():
            yield number, _parse_object(line, source)


def write_json_line(stream: TextIO, value: Mapping[str, Any]) -> None:
    stream.write(json.dumps(value, ensure_ascii=False) + "\n")


def parse_json(text: str) -> Any:  # noqa: ANN401 - any JSON
    """JSON, or a DecodeError that says where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _build_json_error(error) from None


def _parse_object(line: str, source: TextSource) -> dict[str, Any] | InvalidInput:
    try:
        check_text(line, source.encoding)
        value = parse_json(line)
    except InvalidInput as error:
        return error
    return value if isinstance(value, dict) else DecodeError(f"{NOT_AN_OBJECT}: write one a line, or all in an array")


def _build_json_error(error: Exception) -> DecodeError:
    reason = getattr(error, "msg", "too deep or too large")
    column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
    return DecodeError(f"not JSON: {reason}{column}")


def _read_document(source: TextSource) -> Iterator[NumberedObject]:
    """Objects in arrays or just behind each other. Behind what is no JSON nothing can be known to be one."""
    reading = _JsonScanner(source)
    array = False
    while char := reading.skip(_SEPARATORS if array else _WHITESPACE):
        if char in "[]" and array == (char == "]"):
            array = not array
            reading.advance(1)
            continue
        at = reading.line
        text, value = reading.read_value()
        if not isinstance(value, dict):
            yield at, DecodeError(f"{NOT_AN_OBJECT}: write one a line, or all in an array")
            continue
        try:
            check_text(text, source.encoding)
        except DecodeError as error:
            yield at, error
        else:
            yield at, value
    if array:
        raise DecodeError(
            f"{source.format_location(reading.line)}: the JSON array is not closed: is the file cut short?"
        )


class _JsonScanner:
    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._text = ""
        self._position = 0
        self._exhausted = False
        self._decoder = json.JSONDecoder()
        self.line = 1

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Goes past it; the next character, or nothing at the end."""
        while True:
            found = pattern.match(self._text, self._position)
            self.advance(found.end() - self._position if found else 0)
            if self._position < len(self._text) or not self._read_more(_CHUNK_SIZE):
                return self._text[self._position : self._position + 1]

    def advance(self, size: int) -> None:
        self.line += self._text.count("\n", self._position, self._position + size)
        self._position += size

    def read_value(self) -> tuple[str, Any]:
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._position)
            except (ValueError, RecursionError) as error:
                waiting = len(self._text) - self._position
                broken = isinstance(error, RecursionError) or not isinstance(error, json.JSONDecodeError)
                # Twice as much each time: reading a large object costs no more than a few parses.
                if broken or waiting > MAX_LINE or not self._read_more(max(_CHUNK_SIZE, waiting)):
                    raise DecodeError(
                        f"{self._source.format_location(self.line)}: {_build_json_error(error)}"
                    ) from None
                continue
            # A number or name at the very end of what was read may go on.
            if not isinstance(value, dict | list) and end == len(self._text) and self._read_more(_CHUNK_SIZE):
                continue
            text = self._text[self._position : end]
            self.advance(end - self._position)
            return text, value

    def _read_more(self, size: int) -> bool:
        if self._exhausted:
            return False
        piece = self._source.stream.read(size)
        self._exhausted = not piece
        self._text = self._text[self._position :] + piece
        self._position = 0
        return bool(piece)
