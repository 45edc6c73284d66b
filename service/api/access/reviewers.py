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


def may_see_hidden(caller: Caller, name: str) -> bool:
    """Whether the caller may see what reviewer `name` decided, before the item has all its decisions.

    The caller's own name counts only for a reviewer: a key that can't decide may have the name of somebody else.
    """
    return caller.role == "admin" or (caller.role == "reviewer" and name == caller.name)


def resolve_viewer(caller: Caller, name: str | None, *, field: str) -> str | None:
    """The reviewer as whom the caller looks at the queue, and whose hidden decisions it therefore sees; None: as nobody.

    Raises `ForbiddenError` if anybody but an admin looks as another. A caller that can't decide may send its own name,
    which has no effect.
    """
    if name is None or may_see_hidden(caller, name):
        return name
    if name != caller.name:
        raise ForbiddenError(
            f"{caller.describe()} does not look at the queue as {name[:128]!r}: leave `{field}` out", field=field
        )
    return None
