"""Validation errors of messages, parameters and settings, as texts that say what to send.

Indexes in a path count from 0 and are joined by dots: `sentences.1.labels`.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.contracts.base import DATASET_NAME_PATTERN, DATASET_NAME_RULE, ISO_TIME_HINT
from service.errors import DecodeError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MAX_REPORTED_ERRORS: Final = 5
_MAX_INPUT_CHARS: Final = 60
_KEY_MARK: Final = "[key]"  # pydantic adds it to the path of an entry of a map whose key breaks a rule
_KINDS_WITHOUT_INPUT: Final = frozenset({"missing", "extra_forbidden"})
_INTEGER_HINT: Final = "give a whole number"
_ARRAY_HINT: Final = 'give an array, as ["…", "…"]'
_OBJECT_HINT: Final = 'give an object, as {{"…": …}}'
_TIME_ERROR_PREFIXES: Final = ("datetime_", "date_", "timezone_")
# By pydantic's error type. Braces hold the limit of the rule.
_HINTS_BY_KIND: Final[Mapping[str, str]] = {
    "missing": "it is missing: give it",
    "extra_forbidden": "there is no such field: correct its name or leave it out",
    "string_type": "give text in quotes",
    "string_sub_type": "give text in quotes",
    "string_too_short": "give at least {min_length}",
    "string_too_long": "give at most {max_length}",
    "too_short": "give at least {min_length}",
    "too_long": "give at most {max_length}",
    "string_unicode": "give valid Unicode text",
    "int_type": _INTEGER_HINT,
    "int_parsing": _INTEGER_HINT,
    "int_from_float": _INTEGER_HINT,
    "int_parsing_size": "give a smaller number",
    "float_type": "give a number",
    "float_parsing": "give a number",
    "finite_number": "give a number that is neither NaN nor infinite",
    "bool_type": "give true or false",
    "bool_parsing": "give true or false",
    "greater_than": "give more than {gt}",
    "greater_than_equal": "give at least {ge}",
    "less_than": "give less than {lt}",
    "less_than_equal": "give at most {le}",
    "literal_error": "choose one of {expected}",
    "enum": "choose one of {expected}",
    "list_type": _ARRAY_HINT,
    "tuple_type": _ARRAY_HINT,
    "dict_type": _OBJECT_HINT,
    "model_type": _OBJECT_HINT,
    "model_attributes_type": _OBJECT_HINT,
    "string_pattern_mismatch": "it does not have the form {pattern}",
}


class FieldError(NamedTuple):
    """One violated rule: what to change, and where."""

    problem: str
    field: str | None = None
    word: int | None = None


def describe(error: ErrorDetails | Mapping[str, Any], *, show_input: bool = True) -> str:
    """The text for one pydantic error. It quotes the beginning of the input, unless that may be a secret."""
    kind, context = str(error["type"]), dict(error.get("ctx") or {})
    given = f"{_quote_input(error.get('input'))}: " if show_input and kind not in _KINDS_WITHOUT_INPUT else ""
    if show_input and kind == "string_pattern_mismatch" and context.get("pattern") == DATASET_NAME_PATTERN:
        return f"{_quote_input(error.get('input'))} can't be the name of a dataset: {DATASET_NAME_RULE}"
    if kind.startswith(_TIME_ERROR_PREFIXES):
        return f"{given}{ISO_TIME_HINT}"
    if given and kind == "too_long" and isinstance(error["input"], Sized):  # how many tells more than which
        given = f"it has {len(error['input'])} entries: "
    hint = _HINTS_BY_KIND.get(kind)
    if hint is None:
        return str(error["msg"]).removeprefix("Value error, ")
    if kind in ("literal_error", "enum"):
        context = {"expected": str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")}
    unit, units = ("character", "characters") if kind.startswith("string_") else ("entry", "entries")
    for name in ("min_length", "max_length"):
        if name in context:
            context[name] = f"{context[name]} {unit if context[name] == 1 else units}"
    for name in ("gt", "ge", "lt", "le"):
        if isinstance(context.get(name), float):
            context[name] = f"{context[name]:g}"  # 1, not 1.0
    return given + hint.format_map(context)


def to_field_error(error: ErrorDetails) -> FieldError:
    return FieldError(describe(error), join_location(error["loc"]))


def to_invalid_input(
    error: ValidationError,
    *,
    location: str | None = None,
    format_error: Callable[[ErrorDetails], FieldError] = to_field_error,
) -> InvalidInput:
    """One error for up to five fields. `location` is the path of the validated object in the request body."""
    first, *others = (
        violation._replace(field=join_path((location, violation.field)))
        for violation in map(format_error, drop_consequences(error.errors(include_url=False)))
    )
    return InvalidInput(summarize(first.problem, others), field=first.field, word=first.word)


def drop_consequences(errors: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """The errors without those that follow from others: pydantic does not count a wrong entry, and calls the rest too short."""
    paths = [error["loc"] for error in errors]
    return [
        error
        for error in errors
        if error["type"] != "too_short"
        or not any(len(path) > len(error["loc"]) and path[: len(error["loc"])] == error["loc"] for path in paths)
    ]


def summarize(first: str, others: Sequence[FieldError]) -> str:
    """The first problem, then the others with their fields."""
    parts = [
        first,
        *(
            str(InvalidInput(other.problem, field=other.field, word=other.word))
            for other in others[: MAX_REPORTED_ERRORS - 1]
        ),
    ]
    more = len(others) + 1 - len(parts)
    return "; ".join(parts) + (f" (and {more} more)" if more else "")


def join_location(location: Sequence[str | int]) -> str | None:
    """The path of a field in pydantic's errors. Names that a client chose, such as keys of a map, are shortened."""
    if len(location) > 2 and location[-1] == _KEY_MARK:
        location = location[:-1]
    return join_path(shorten(part) if isinstance(part, str) else part for part in location)


def join_path(parts: Iterable[object]) -> str | None:
    return ".".join(str(part) for part in parts if part is not None) or None


def to_decode_error(raw: bytes | str, error: Exception | str, *, subject: str = "the body") -> DecodeError:
    """The error for bytes that are not JSON. Bytes in another encoding get a text of their own."""
    if isinstance(raw, bytes):
        try:
            raw.decode()
        except UnicodeDecodeError as decoding:
            start = decoding.start
            return DecodeError(f"{subject} is not UTF-8 (byte 0x{raw[start]:02x} at {start}): encode it as UTF-8")
    return DecodeError(f"{subject} is not JSON: {error}")


def _quote_input(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = value if isinstance(value, str) else str(value)
    return repr(shorten(text)) if isinstance(value, str) else shorten(text)


def shorten(text: str) -> str:
    """The beginning of a text that a client chose, for an error."""
    return text if len(text) <= _MAX_INPUT_CHARS else text[: _MAX_INPUT_CHARS - 1] + "…"
