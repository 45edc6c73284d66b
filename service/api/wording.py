"""What breaks a rule of a parameter or field, in words that say what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from service.contracts import DATASET_RULE, DatasetName

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = TypeAdapter(DatasetName).json_schema()["pattern"]
_SHOWN: Final = 60
# By the validator's own name for the rule; what is in braces is its limit.
_WORDS: Final[Mapping[str, str]] = {
    "missing": "it is missing: give it",
    "extra_forbidden": "there is no such field: correct its name or leave it out",
    "string_type": "give text",
    "string_too_short": "give at least {min_length} characters",
    "string_too_long": "give at most {max_length} characters",
    "string_unicode": "give valid Unicode text",
    "int_type": "give a whole number",
    "int_parsing": "give a whole number",
    "int_from_float": "give a whole number",
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
    "list_type": "give an array",
    "tuple_type": "give an array",
    "dict_type": "give an object",
    "model_type": "give an object",
    "string_pattern_mismatch": "it does not have the form {pattern}",
}


def in_words(error: Mapping[str, Any]) -> str:
    """One error of the validator. What was given is shown where it is short."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    if kind == "string_pattern_mismatch" and context.get("pattern") == _NAME:
        return f"{_shown(error.get('input'))} can't be the name of a dataset: {DATASET_RULE}"
    told = _WORDS.get(kind)
    if told is None:
        return str(error["msg"]).removeprefix("Value error, ").replace("valid tuple", "valid array")
    if kind in ("literal_error", "enum"):
        context = {"expected": str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")}
    told = told.format_map(context)
    return told if kind in ("missing", "extra_forbidden") else f"{_shown(error.get('input'))}: {told}"


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
