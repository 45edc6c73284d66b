"""Errors as RFC 9457 problem details. One table says which error is which status."""

from __future__ import annotations

from service.errors import LabelwatchError


class RequestError(LabelwatchError):
    """A request that can't be served; each kind has its own status."""

    def __init__(self, problem: str, *, field: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(problem)
        self.field = field
        self.retry_after = retry_after


class NotFoundError(RequestError):
    """404"""


class ConflictError(RequestError):
    """409: somebody else was first"""


class ChangedError(RequestError):
    """412: it is another version than `If-Match` names"""


class TooLargeError(RequestError):
    """413: a body or a list over its limit"""


class UnauthorizedError(RequestError):
    """401: no key, or one that is not known"""


class ForbiddenError(RequestError):
    """403: a key without the scope"""


class OverloadedError(RequestError):
    """429: the queue is full"""


class DrainingError(RequestError):
    """503: about to stop"""


class TimedOutError(RequestError):
    """504: it took longer than is allowed"""
