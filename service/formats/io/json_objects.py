"""Streams JSON objects from a source: one per line, in an array, or over several lines.

It never reads the whole source: exports have hundreds of thousands of tasks in one array.
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

# The line at which it starts, and the object or its error.
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
    """A JSON value. Raises a DecodeError with the column of the error."""
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
    return value if isinstance(value, dict) else DecodeError(f"{NOT_AN_OBJECT}: write one per line, or all in an array")


def _build_json_error(error: Exception) -> DecodeError:
    reason = getattr(error, "msg", "too deep or too large")
    column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
    return DecodeError(f"not JSON: {reason}{column}")


def _read_document(source: TextSource) -> Iterator[NumberedObject]:
    """Objects in arrays, or one after the other. After invalid JSON the start of the next object is unknown."""
    scanner = _JsonScanner(source)
    in_array = False
    while char := scanner.skip(_SEPARATORS if in_array else _WHITESPACE):
        if char in "[]" and in_array == (char == "]"):
            in_array = not in_array
            scanner.advance(1)
            continue
        line = scanner.line
        text, value = scanner.read_value()
        if not isinstance(value, dict):
            yield line, DecodeError(f"{NOT_AN_OBJECT}: write one per line, or all in an array")
            continue
        try:
            check_text(text, source.encoding)
        except DecodeError as error:
            yield line, error
        else:
            yield line, value
    if in_array:
        raise DecodeError(
            f"{source.format_location(scanner.line)}: the JSON array is not closed: is the file cut short?"
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
        """Skips text that matches; returns the next character, or an empty string at the end."""
        while True:
            match = pattern.match(self._text, self._position)
            self.advance(match.end() - self._position if match else 0)
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
                unparsed = len(self._text) - self._position
                is_final = not isinstance(error, json.JSONDecodeError)
                # Reads twice as much each time, so that a large object is parsed only a few times.
                if is_final or unparsed > MAX_LINE or not self._read_more(max(_CHUNK_SIZE, unparsed)):
                    raise DecodeError(
                        f"{self._source.format_location(self.line)}: {_build_json_error(error)}"
                    ) from None
                continue
            # A number or literal at the end of the chunk may continue in the next one.
            if not isinstance(value, dict | list) and end == len(self._text) and self._read_more(_CHUNK_SIZE):
                continue
            text = self._text[self._position : end]
            self.advance(end - self._position)
            return text, value

    def _read_more(self, size: int) -> bool:
        if self._exhausted:
            return False
        chunk = self._source.stream.read(size)
        self._exhausted = not chunk
        self._text = self._text[self._position :] + chunk
        self._position = 0
        return bool(chunk)
