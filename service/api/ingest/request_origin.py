"""What the messages of a request say about it in their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.api.access.caller import find_caller
from service.api.backend import get_request_id
from service.log.codec import RequestOrigin
from service.log.trace_headers import read_trace_headers

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def get_request_origin(connection: HTTPConnection) -> RequestOrigin:
    caller = find_caller(connection)
    return RequestOrigin(
        request_id=get_request_id(connection),
        sent_by=caller.name if caller is not None else None,
        trace=read_trace_headers(connection.headers),
    )
