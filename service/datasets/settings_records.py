"""Dataset settings as records of the datasets topic: reading, checking and encoding them."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import to_json

from service.contracts import DatasetSettings, describe_flag_policies
from service.contracts.validation import FieldError, describe, join_location, to_invalid_input
from service.errors import InvalidInput
from service.log.codec import DATASET_EVENT_TYPE, build_event_headers
from service.log.protocol import Output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from service.log.protocol import Record, RecordPosition


@dataclass(frozen=True, slots=True)
class LatestSettings:
    """The newest readable settings of a dataset in the topic, in force or not, and the position of its last record.

    `value` is the record's value as it was written: fields that only a newer labelwatch knows survive a change of
    others.
    """

    settings: DatasetSettings | None = None
    value: bytes | None = None
    position: RecordPosition | None = None

    @property
    def version(self) -> int:
        return 0 if self.settings is None else self.settings.version

    def apply(self, record: Record) -> LatestSettings:
        """With one more record. Of several records with one version the last counts: compaction keeps no other."""
        if record.value is None:
            return LatestSettings(position=record.position)
        try:
            settings = read_settings_record(record)
        except InvalidInput:
            return replace(self, position=record.position)
        if settings.version < self.version:
            return replace(self, position=record.position)
        return LatestSettings(settings, record.value, record.position)


def get_dataset_name(record: Record) -> str:
    """The name of the dataset that a record of the topic is about."""
    return (record.key or b"").decode(errors="replace")


def read_settings_record(record: Record) -> DatasetSettings:
    """The settings in a record. Unknown fields are ignored: the writer may be newer than this process."""
    try:
        settings = DatasetSettings.model_validate_json(record.value or b"")
    except ValidationError as error:
        raise to_invalid_input(error, format_error=_to_field_error) from None
    if settings.name != get_dataset_name(record):
        raise InvalidInput(
            f"the record's key is {get_dataset_name(record)!r}, its name is {settings.name!r}: write the same name in both",
            field="name",
        )
    return settings


def parse_settings(fields: Mapping[str, Any]) -> DatasetSettings:
    """Settings from a request. Types are strict and unknown fields are errors, as in the JSON schema."""
    try:
        return DatasetSettings.model_validate_json(to_json(fields), extra="forbid", strict=True)
    except ValidationError as error:
        raise to_invalid_input(error, format_error=_to_field_error) from None


def _to_field_error(error: ErrorDetails) -> FieldError:
    location = list(error["loc"])
    policy_kind = ""
    if location[:1] == ["flag_policy"] and len(location) > 1:
        policy_kind = str(location.pop(1))  # pydantic reports the kind as if it were a field
    problem = describe(error)
    if error["type"] == "extra_forbidden" and policy_kind:
        problem = f"kind {policy_kind} has no such field"
    elif error["type"] == "extra_forbidden":
        known = [name for name in DatasetSettings.model_fields if name != "name"]
        problem = f"there is no such setting: use one of {', '.join(known)}"
    elif location == ["flag_policy"]:
        problem = f"give {describe_flag_policies()}"
    return FieldError(problem, join_location(location))


def build_settings_message(topic: str, fields: Mapping[str, Any], *, request_id: str | None = None) -> Output:
    """The message that brings settings into force. `fields` may contain some that only a newer labelwatch knows."""
    headers = build_event_headers(
        DATASET_EVENT_TYPE, event_id=str(uuid.uuid4()), at=datetime.now(UTC), request_id=request_id
    )
    value = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Output(topic, str(fields["name"]).encode(), value, headers)
