"""The structure of JSON that is found without parsing it is that which a parser finds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.api.http.json_text import scan
from service.api.http.json_text.parse import parse_json
from service.api.http.json_text.scan import measure_shape
from service.api.http.json_text.split import split_records
from service.errors import DecodeError

TEXTS = st.text(alphabet='ab\\"[]{},: \n')
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def read_elements(elements: Any) -> Any:
    assert all(isinstance(each, memoryview) for each in elements)
    return [parse_json(bytes(each)) for each in elements]


@pytest.mark.parametrize("block", [1, 3, 1 << 18])
@settings(max_examples=150)
@given(
    records=st.lists(VALUES, max_size=5), beside=st.dictionaries(TEXTS, VALUES, max_size=3), indent=st.integers(0, 2)
)
def test_the_elements_of_a_list_are_those_of_a_parser(
    block: int, records: list[Any], beside: dict[str, Any], indent: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "BLOCK_BYTES", block)
        raw = json.dumps({**beside, "sentences": records}, indent=indent or None, ensure_ascii=False).encode()
        body = split_records(b" " + raw + b"\n", "sentences", 10)
        assert isinstance(body, dict)
        assert {**body, "sentences": read_elements(body["sentences"])} == json.loads(raw)
        listed = json.dumps(records, indent=indent or None).encode()
        assert read_elements(split_records(listed, "sentences", 10)) == records


@settings(max_examples=150)
@given(value=VALUES)
def test_names_and_values_are_counted(value: Any) -> None:
    def count_names(part: Any) -> int:
        if isinstance(part, dict):
            return len(part) + sum(map(count_names, part.values()))
        return sum(map(count_names, part)) if isinstance(part, list) else 0

    def count_scalars(part: Any) -> int:
        if isinstance(part, dict):
            return sum(map(count_scalars, part.values()))
        return sum(map(count_scalars, part)) if isinstance(part, list) else 1

    shape = measure_shape(json.dumps(value).encode())
    assert shape.names == count_names(value)
    assert shape.values >= count_scalars(value)


@pytest.mark.parametrize("raw", [b"[1", b'["a', b"]", b'{"sentences": [}', b"[1]]", b'{"sentences": [1]', b'["\\"]'])
def test_brackets_and_quotes_that_do_not_match_are_no_json(raw: bytes) -> None:
    def read() -> None:
        body = split_records(raw, "sentences", 10)
        read_elements(body["sentences"] if isinstance(body, dict) else body)

    with pytest.raises(DecodeError, match="not JSON"):
        read()
