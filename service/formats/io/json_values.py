"""Values of foreign JSON. `require_…` and `parse_…` return the value, or raise an error that names its field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

MISSING: Final = "it is missing"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def require_object(value: object, field: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise InvalidInput(MISSING if value is None else "it must be an object", field=field)


def require_array(value: object, field: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise InvalidInput(MISSING if value is None else "it must be an array", field=field)


def require_text(value: object, field: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidInput(MISSING if value is None else "it must be text", field=field)


def require_integer(value: object, field: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return value
    raise InvalidInput(MISSING if value is None else "it must be a whole number of characters", field=field)


def require_label(value: object, field: str) -> str:
    """A label, or a list that holds exactly one."""
    if isinstance(value, list):
        if len(value) != 1:
            given = f"{len(value)} labels ({', '.join(map(str, value[:5]))})" if value else "no label"
            raise InvalidInput(f"{given}: a span needs exactly one", field=field)
        value = value[0]
    if isinstance(value, str) and value:
        return value
    raise InvalidInput(MISSING if value in (None, "") else "it must be text", field=field)


def to_name(value: object) -> str | None:
    """The name or id of a user, record or project as text; None if the value is neither text nor a whole number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | str) and value != "":
        return str(value)
    return None


def parse_timestamp(value: object, field: str) -> datetime:
    """A time in ISO 8601; without a time zone it is UTC."""
    if isinstance(value, str):
        try:
            timestamp = datetime.fromisoformat(value)
            return timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise InvalidInput(f"{str(value)[:40]!r} is not a time in ISO 8601", field=field)


def to_microseconds(timestamp: datetime) -> int:
    """Microseconds since 1970. As a revision they grow each time the annotation is saved."""
    elapsed = timestamp - _EPOCH
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds


def format_timestamp(timestamp: datetime | None) -> str | None:
    return None if timestamp is None else timestamp.isoformat().replace("+00:00", "Z")
