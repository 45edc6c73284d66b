"""The base class of all messages, and types that several of them use."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictStr, TypeAdapter, ValidationError

DATASET_NAME_PATTERN = r"^[a-z0-9._-]{1,64}$"
DATASET_NAME_RULE = "a name has 1 to 64 lower-case letters, digits, dots, dashes or underscores"

MAX_MODEL_NAME_CHARS = 64
MODEL_NAME_PATTERN = rf"^[a-z0-9][a-z0-9._-]{{0,{MAX_MODEL_NAME_CHARS - 1}}}$"
MODEL_NAME_RULE = "lower-case letters, digits, `.`, `_` and `-`, at most 64, the first a letter or digit"

DatasetName = Annotated[StrictStr, Field(pattern=DATASET_NAME_PATTERN, description="Lower-case name of the dataset")]

_TIME = TypeAdapter(datetime)
ISO_TIME_HINT = "give the time as ISO 8601 text, such as 2024-05-31T12:00:00Z"


class Message(BaseModel):
    """A message is frozen. Unknown fields are ignored unless the reader forbids them."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def is_dataset_name(text: str) -> bool:
    return re.fullmatch(DATASET_NAME_PATTERN, text) is not None


def is_model_name(text: str) -> bool:
    """Whether a model of the registry may have this name."""
    return re.fullmatch(MODEL_NAME_PATTERN, text) is not None


def validate_iso_time(value: object) -> object:
    """Refuses a bare number: pydantic would read it as seconds since 1970."""
    if isinstance(value, str) and not value.strip().lstrip("+-").isdigit():
        return value
    if value is None or isinstance(value, datetime):
        return value
    raise ValueError(ISO_TIME_HINT)


def parse_iso_time(value: object) -> object:
    """Like `validate_iso_time`, for messages that are also read in strict mode: after a validator, pydantic does not take
    text for a time there.
    """
    checked = validate_iso_time(value)
    if not isinstance(checked, str):
        return checked
    try:
        return _TIME.validate_python(checked)
    except ValidationError:
        raise ValueError(ISO_TIME_HINT) from None
