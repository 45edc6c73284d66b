"""The datasets a worker knows: their settings as the datasets topic tells them, and a judge for each."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import to_json

from service.contracts import DatasetSettings, describe_flag_policies
from service.contracts.defaults import MAX_DATASETS
from service.contracts.validation import FieldError, describe, join_path, to_invalid_input
from service.errors import InvalidInput, LabelwatchError
from service.judging.judge import Judge
from service.log.codec import DATASET_EVENT_TYPE, build_event_headers
from service.log.protocol import Output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from pydantic_core import ErrorDetails

    from service.inference.model.folder import ModelFolder
    from service.log.protocol import Record, RecordPosition


@dataclass(frozen=True, slots=True)
class LatestSettings:
    """What the topic holds of a dataset, in force or not: who changes it writes the next version, after this spot.

    The value is as it was written, so that fields of a newer labelwatch survive a change of others.
    """

    version: int = 0
    value: bytes | None = None
    position: RecordPosition | None = None

    def apply(self, record: Record) -> LatestSettings:
        """With one more record. Of several with one version the last counts: compaction leaves no other."""
        if record.value is None:
            return LatestSettings(position=record.position)
        try:
            version = DatasetSettings.model_validate_json(record.value).version
        except ValidationError:
            return replace(self, position=record.position)
        if self.value is not None and version < self.version:
            return replace(self, position=record.position)
        return LatestSettings(version, record.value, record.position)


class DatasetRegistry:
    """Settings by dataset name; the newest version wins. One thread uses it.

    A dataset nobody has set up is made with default settings, up to a limit: past it a producer with a bug, or
    with bad intent, would fill the state with names.
    """

    def __init__(
        self, folder: ModelFolder, *, max_datasets: int = MAX_DATASETS, min_words: int, prior_words: int
    ) -> None:
        self._folder = folder
        self._max_datasets = max_datasets
        self._min_words = min_words
        self._prior_words = prior_words
        self._settings: dict[str, DatasetSettings] = {}
        self._judges: dict[str, Judge] = {}
        self._existing: set[str] = set()
        self._latest: dict[str, LatestSettings] = {}
        self.refused_settings: dict[str, str] = {}

    def register_existing(self, names: Iterable[str]) -> None:
        """Datasets that have statistics: they count towards the limit, and are let in whatever it is."""
        self._existing.update(names)

    def apply_records(self, records: Iterable[Record]) -> None:
        """Takes in records of the datasets topic. One that can't be used leaves the older settings in force."""
        for record in records:
            name = (record.key or b"").decode(errors="replace")
            self._latest[name] = self.get_latest(name).apply(record)
            if record.value is None:
                self._settings.pop(name, None)
                self._judges.pop(name, None)
                self.refused_settings.pop(name, None)
                continue
            try:
                self.put(DatasetSettings.model_validate_json(record.value))
            except ValidationError as error:
                self.refused_settings[name] = str(to_invalid_input(error, format_error=_to_field_error))
            except LabelwatchError as error:
                self.refused_settings[name] = str(error)

    def put(self, settings: DatasetSettings) -> None:
        known = self._settings.get(settings.name)
        if known is not None and settings.version < known.version:
            return
        judge = self.build_judge(settings)  # raises where the settings don't fit the model
        self._settings[settings.name] = settings
        self._judges[settings.name] = judge
        self.refused_settings.pop(settings.name, None)

    def get_judge(self, name: str) -> Judge:
        found = self._judges.get(name)
        if found is None:
            if name not in self._existing and len({*self._judges, *self._existing}) >= self._max_datasets:
                raise InvalidInput(
                    f"{name!r} would be dataset number {self._max_datasets + 1}: use a known dataset or raise max_datasets",
                    field="dataset",
                )
            found = self.build_judge(DatasetSettings(name=name))
            self._judges[name] = found
        return found

    def get_latest(self, name: str) -> LatestSettings:
        return self._latest.get(name, LatestSettings())

    def build_judge(self, settings: DatasetSettings) -> Judge:
        """A judge with these settings, which is not kept; raises where they don't fit the model."""
        return Judge(self._folder, settings, min_words=self._min_words, prior_words=self._prior_words, streamed=True)

    def __contains__(self, name: str) -> bool:
        return name in self._judges

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._judges))


def parse_settings(fields: Mapping[str, Any], *, strict: bool = False) -> DatasetSettings:
    """Settings as somebody writes them: a field that is not known is an error too. It names the field.

    `strict`: numbers must be numbers, as the schema says; else text that holds one will do.
    """
    try:
        if strict:
            return DatasetSettings.model_validate_json(to_json(fields), extra="forbid", strict=True)
        return DatasetSettings.model_validate(fields, extra="forbid")
    except ValidationError as error:
        raise to_invalid_input(error, format_error=_to_field_error) from None


def _to_field_error(error: ErrorDetails) -> FieldError:
    place = list(error["loc"])
    kind = ""
    if place[:1] == ["flag_policy"] and len(place) > 1:
        kind = str(place.pop(1))  # told as if it were a field
    problem = describe(error)
    if error["type"] == "extra_forbidden":
        known = [name for name in DatasetSettings.model_fields if name != "name"]
        problem = f"there is no such setting: use one of {', '.join(known)}"
        if kind:
            problem = f"kind {kind} has no such field"
    elif place == ["flag_policy"]:
        problem = f"give {describe_flag_policies()}"
    return FieldError(problem, join_path(place))


def build_settings_message(
    topic: str, fields: Mapping[str, Any], *, at: datetime, request_id: str | None = None
) -> Output:
    """The message that brings settings into force; `fields` may hold some that only a newer version knows."""
    name = str(fields["name"])
    headers = build_event_headers(DATASET_EVENT_TYPE, event_id=str(uuid.uuid4()), at=at, request_id=request_id)
    value = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Output(topic, name.encode(), value, headers)
