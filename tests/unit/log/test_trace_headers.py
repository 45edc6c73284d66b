from __future__ import annotations

import pytest

from service.log.trace_headers import read_trace_headers, select_trace_headers

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_headers_of_a_record_pass_byte_for_byte() -> None:
    headers = (("a", b"1"), ("traceparent", b"\xff odd"), ("tracestate", b"x=1"), ("b", b""))
    assert select_trace_headers(headers) == (("traceparent", b"\xff odd"), ("tracestate", b"x=1"))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"traceparent": PARENT}, (("traceparent", PARENT.encode()),)),
        (
            {"traceparent": PARENT, "tracestate": "vendor=1"},
            (("traceparent", PARENT.encode()), ("tracestate", b"vendor=1")),
        ),
        ({"traceparent": PARENT, "tracestate": "x" * 513}, (("traceparent", PARENT.encode()),)),
        ({"traceparent": PARENT, "tracestate": "a=ü"}, (("traceparent", PARENT.encode()),)),
        ({"traceparent": PARENT.upper()}, ()),
        ({"traceparent": PARENT.replace("00-", "ff-", 1)}, ()),
        ({"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"}, ()),
        ({"traceparent": f"{PARENT}\n"}, ()),
        ({"tracestate": "vendor=1"}, ()),
        ({}, ()),
    ],
)
def test_a_request_with_a_valid_context_hands_it_on(
    headers: dict[str, str], expected: tuple[tuple[str, bytes], ...]
) -> None:
    assert read_trace_headers(headers) == expected
