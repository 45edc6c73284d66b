"""What all messages have in common."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictStr

DATASET_NAME_PATTERN = r"^[a-z0-9._-]{1,64}$"
DATASET_NAME_RULE = "a name has 1 to 64 lower-case letters, digits, dots, dashes or underscores"

DatasetName = Annotated[StrictStr, Field(pattern=DATASET_NAME_PATTERN, description="Lower-case name of the dataset")]

ISO_TIME_HINT = "give the time as ISO 8601 text, such as 2024-05-31T12:00:00Z"


class Message(BaseModel):
    """Frozen, and silent about fields it does not know unless the reader says otherwise."""

    model_config = ConfigDict(frozen=True, extra="ignore")


def is_dataset_name(text: str) -> bool:
    return re.fullmatch(DATASET_NAME_PATTERN, text) is not None


def validate_iso_time(value: object) -> object:
    """A bare number would be read as seconds since 1970, which is never what was meant."""
    if isinstance(value, str) and not value.strip().lstrip("+-").isdigit():
        return value
    if value is None or isinstance(value, datetime):
        return value
    raise ValueError(ISO_TIME_HINT)
