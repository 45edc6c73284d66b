"""Trace context (W3C): `traceparent` and `tracestate` pass from a request or a sentence to its assessment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.log.protocol import Headers

TRACE_PARENT: Final = "traceparent"
TRACE_STATE: Final = "tracestate"
MAX_TRACE_STATE_CHARS: Final = 512
_TRACE_PARENT_FORM: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def select_trace_headers(headers: Headers) -> Headers:
    """The trace context of a record, byte for byte."""
    return tuple((name, value) for name, value in headers if name in (TRACE_PARENT, TRACE_STATE))


def read_trace_headers(headers: Mapping[str, str]) -> Headers:
    """The trace context of an HTTP request, for the messages that it appends. One that is not valid is left out."""
    parent, state = headers.get(TRACE_PARENT, ""), headers.get(TRACE_STATE, "")
    if not _TRACE_PARENT_FORM.fullmatch(parent):
        return ()
    found = ((TRACE_PARENT, parent.encode()),)
    if not state or len(state) > MAX_TRACE_STATE_CHARS or not state.isascii() or not state.isprintable():
        return found
    return (*found, (TRACE_STATE, state.encode()))
