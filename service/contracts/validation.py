"""What breaks a rule of a message, a parameter or a setting, in words that say what to change.

Validators tell what they expected; whoever must correct a request wants to know what to send. Places are counted from
0 and joined by dots, as `sentences.1.labels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import TypeAdapter

from service.contracts.base import DATASET_RULE, ISO_TIME, DatasetName
from service.errors import DecodeError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

MOST_TOLD: Final = 5
_SHOWN: Final = 60
_NAME: Final = TypeAdapter(DatasetName).json_schema()["pattern"]
_NOT_SHOWN: Final = frozenset({"missing", "extra_forbidden"})
_WHOLE: Final = "give a whole number"
_ARRAY: Final = 'give an array, as ["…", "…"]'
_OBJECT: Final = 'give an object, as {{"…": …}}'
_TIMES: Final = ("datetime_", "date_", "timezone_")
# By the validator's own name for the rule; what is in braces is its limit.
_WORDS: Final[Mapping[str, str]] = {
    "missing": "it is missing: give it",
    "extra_forbidden": "there is no such field: correct its name or leave it out",
    "string_type": "give text in quotes",
    "string_sub_type": "give text in quotes",
    "string_too_short": "give at least {min_length}",
    "string_too_long": "give at most {max_length}",
    "string_unicode": "give valid Unicode text",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
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
    "list_type": _ARRAY,
    "tuple_type": _ARRAY,
    "dict_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "string_pattern_mismatch": "it does not have the form {pattern}",
}


class Told(NamedTuple):
    """One broken rule: where, and what to change."""

    problem: str
    field: str | None = None
    word: int | None = None


def in_words(error: ErrorDetails | Mapping[str, Any], *, shown: bool = True) -> str:
    """One error of the validator. What was given is shown where it is short, unless it may be a secret."""
    kind, context = str(error["type"]), dict(error.get("ctx") or {})
    given = f"{_shown(error.get('input'))}: " if shown and kind not in _NOT_SHOWN else ""
    if shown and kind == "string_pattern_mismatch" and context.get("pattern") == _NAME:
        return f"{_shown(error.get('input'))} can't be the name of a dataset: {DATASET_RULE}"
    if kind.startswith(_TIMES):
        return f"{given}{ISO_TIME}"
    told = _WORDS.get(kind)
    if told is None:
        return str(error["msg"]).removeprefix("Value error, ")
    if kind in ("literal_error", "enum"):
        context = {"expected": str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")}
    for name in ("min_length", "max_length"):
        if name in context:
            context[name] = f"{context[name]} character{'' if context[name] == 1 else 's'}"
    for name in ("gt", "ge", "lt", "le"):
        if isinstance(context.get(name), float):
            context[name] = f"{context[name]:g}"  # 1, not 1.0
    return given + told.format_map(context)


def told_of(error: ErrorDetails) -> Told:
    return Told(in_words(error), path(error["loc"]))


def invalid(
    error: ValidationError, *, at: str | None = None, tell: Callable[[ErrorDetails], Told] = told_of
) -> InvalidInput:
    """The error with all fields that must be corrected, or the first of many. `at`: where they stand in the body."""
    first, *others = (one._replace(field=path((at, one.field))) for one in map(tell, error.errors(include_url=False)))
    return InvalidInput(together(first.problem, others), field=first.field, word=first.word)


def together(first: str, others: Sequence[Told]) -> str:
    """What is wrong first, then the rest with their places."""
    parts = [
        first,
        *(str(InvalidInput(one.problem, field=one.field, word=one.word)) for one in others[: MOST_TOLD - 1]),
    ]
    more = len(others) + 1 - len(parts)
    return "; ".join(parts) + (f" (and {more} more)" if more else "")


def path(parts: Iterable[object]) -> str | None:
    return ".".join(str(part) for part in parts if part is not None) or None


def not_json(raw: bytes | str, error: Exception | str, *, what: str = "the body") -> DecodeError:
    """Why bytes are not JSON. Those in another encoding are no broken JSON, but look so to who reads them."""
    if isinstance(raw, bytes):
        try:
            raw.decode()
        except UnicodeDecodeError as bad:
            return DecodeError(f"{what} is not UTF-8 (byte 0x{raw[bad.start]:02x} at {bad.start}): encode it as UTF-8")
    return DecodeError(f"{what} is not JSON: {error}")


def _shown(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = value if isinstance(value, str) else str(value)
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return repr(text) if isinstance(value, str) else text
