"""In whose name a caller decides and claims."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.api.http.problems import ForbiddenError
from service.errors import InvalidInput

if TYPE_CHECKING:
    from service.api.access.caller import Caller


class Reviewer(NamedTuple):
    """The reviewer of a decision or claim. `recorded_by`: who sent it in the reviewer's name, if it was another."""

    name: str
    recorded_by: str | None = None


def resolve_reviewer(caller: Caller, given: str | None, *, field: str = "reviewer") -> Reviewer:
    """The caller's own name. An admin may name another reviewer, as imports do; without keys everybody names one.

    `field` is the path of the name in the request.
    """
    if caller.kind == "anybody":
        if given is None:
            raise InvalidInput("it is missing: give it, since the service has no keys to take it from", field=field)
        return Reviewer(given)
    if given in (None, caller.name):
        return Reviewer(caller.name)
    if caller.role != "admin":
        raise ForbiddenError(
            f"{caller.describe()} decides and claims as {caller.name}, not as {given[:128]!r}: leave `reviewer` out, or use "
            "the key of an admin",
            field=field,
        )
    return Reviewer(given, recorded_by=caller.name)


def may_see_hidden(caller: Caller, name: str | None) -> bool:
    """Whether the caller may see what reviewer `name` decided, before the item has all its decisions."""
    return caller.kind == "anybody" or caller.role != "reviewer" or name in (None, caller.name)


def check_viewer(caller: Caller, name: str | None, *, field: str) -> None:
    """Raises `ForbiddenError` if a reviewer looks as another: their decisions are hidden until an item is settled."""
    if not may_see_hidden(caller, name):
        raise ForbiddenError(
            f"{caller.describe()} looks at the queue as {caller.name}: leave `{field}` out", field=field
        )
