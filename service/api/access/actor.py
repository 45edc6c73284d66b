"""The caller of a request as the actor of the audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.access.audit_log import Actor
from service.api.access.caller import get_caller
from service.api.backend import get_request_id

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection


def get_actor(connection: HTTPConnection) -> Actor:
    caller = get_caller(connection)
    return Actor(caller.name or None, caller.kind, get_request_id(connection))
