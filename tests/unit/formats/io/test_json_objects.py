"""One object a line, an array in one line or over many, objects behind each other."""

from __future__ import annotations

import io
import json

import pytest

from service.errors import DecodeError, InvalidInput
from service.formats.io import json_objects
from service.formats.io.json_objects import read_objects
from service.formats.io.source import open_source

THREE = [{"n": 1}, {"n": {"deep": [1, "}]"]}}, {"n": "two\nlines"}]


def read_values(text: str | bytes) -> list[tuple[int, dict[str, object] | InvalidInput]]:
    with open_source(io.BytesIO(text.encode() if isinstance(text, str) else text)) as source:
        return list(read_objects(source))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\n".join(map(json.dumps, THREE)), [1, 2, 3]),
        ("\n\n".join(map(json.dumps, THREE)) + "\r\n", [1, 3, 5]),
        (json.dumps(THREE), [1, 1, 1]),
        ("\ufeff" + json.dumps(THREE), [1, 1, 1]),
        (json.dumps(THREE, indent=1), [2, 5, 13]),
        ("\n".join(json.dumps(one, indent=1) for one in THREE), [1, 4, 12]),
        (json.dumps(THREE[:1]) + "\n" + json.dumps(THREE[1:], indent=1), [1, 3, 11]),
    ],
)
@pytest.mark.parametrize("piece", [1, 7, 64 * 1024])
def test_ways_to_write_objects(text: str, lines: list[int], piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_objects, "_CHUNK_SIZE", piece)
    assert [value for _, value in read_values(text)] == THREE
    assert [line for line, _ in read_values(text)] == lines


@pytest.mark.parametrize("text", ["", "\n", "[]", "[\n]\n", " [ ] "])
def test_nothing_is_nothing(text: str) -> None:
    assert read_values(text) == []


def test_large_objects_are_read_a_piece_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_objects, "_CHUNK_SIZE", 16)
    many = [{"text": "x" * 5000, "n": n} for n in range(20)]
    assert [value for _, value in read_values(json.dumps(many))] == many


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[{"a": 1}, {"b": ', "<stream>:1: not JSON"),
        ('[\n{"a": 1},\n{"b" 2}]', "<stream>:3: not JSON: Expecting ':' delimiter"),
        ('[{"a": 1}', "the JSON array is not closed: is the file cut short"),
        ("{\n", "<stream>:1: not JSON"),
        ("[" * 100_000, "not JSON: too deep or too large"),
        ('[{"a": ' + "9" * 5000 + "}]", "not JSON: too deep or too large"),
    ],
)
def test_what_breaks_off_ends_the_reading(text: str, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem):
        read_values(text)


def test_an_object_without_end_is_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_objects, "MAX_LINE", 1000)
    monkeypatch.setattr(json_objects, "_CHUNK_SIZE", 16)
    stream = io.BytesIO(b'[{"a": "' + b"x" * 1_000_000)
    with pytest.raises(DecodeError, match="not JSON"), open_source(stream) as source:
        list(read_objects(source))


@pytest.mark.parametrize("text", ['[1, {"n": 1}, "x"]', '1\n{"n": 1}\n"x"', "[\n1,\n" + '{"n": 1}, null\n]'])
def test_a_value_that_is_no_object_affects_no_other(text: str) -> None:
    first, second, third = (value for _, value in read_values(text))
    assert second == {"n": 1}
    for one in (first, third):
        assert "not a JSON object" in str(one)


@pytest.mark.parametrize("text", [b'[{"n": "\xff"}, {"n": 1}]', b'{"n": "\xff"}\n{"n": 1}'])
def test_a_bad_byte_costs_its_object(text: bytes) -> None:
    first, second = (value for _, value in read_values(text))
    assert "byte 0xff is not UTF-8" in str(first)
    assert second == {"n": 1}
