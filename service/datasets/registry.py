"""The datasets a worker knows: their settings as the datasets topic tells them, and a judge for each."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import to_json

from service.contracts import DatasetSettings
from service.contracts.validation import Told, in_words, invalid, path
from service.errors import InvalidInput, LabelwatchError
from service.judging.judge import Judge
from service.log.codec import DATASET, event_headers
from service.log.protocol import Output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from pydantic_core import ErrorDetails

    from service.inference.model.folder import ModelFolder
    from service.log.protocol import Record, Spot

MAX_DATASETS = 1_000


@dataclass(frozen=True, slots=True)
class Latest:
    """What the topic holds of a dataset, in force or not: who changes it writes the next version, after this spot.

    The value is as it was written, so that fields of a newer labelwatch survive a change of others.
    """

    version: int = 0
    value: bytes | None = None
    spot: Spot | None = None

    def after(self, record: Record) -> Latest:
        """With one more record. Of several with one version the last counts: compaction leaves no other."""
        if record.value is None:
            return Latest(spot=record.spot)
        try:
            version = DatasetSettings.model_validate_json(record.value).version
        except ValidationError:
            return replace(self, spot=record.spot)
        if self.value is not None and version < self.version:
            return replace(self, spot=record.spot)
        return Latest(version, record.value, record.spot)


class Datasets:
    """Settings by dataset name; the newest version wins. One thread uses it.

    A dataset nobody has set up is made with default settings, up to a limit: past it a producer with a bug, or
    with bad intent, would fill the state with names.
    """

    def __init__(
        self, folder: ModelFolder, *, max_datasets: int = MAX_DATASETS, min_words: int, prior_words: int
    ) -> None:
        self._folder = folder
        self._max = max_datasets
        self._min_words = min_words
        self._prior_words = prior_words
        self._settings: dict[str, DatasetSettings] = {}
        self._judges: dict[str, Judge] = {}
        self._learned: set[str] = set()
        self._latest: dict[str, Latest] = {}
        self.refused: dict[str, str] = {}

    def know(self, names: Iterable[str]) -> None:
        """Datasets that have statistics: they count towards the limit, and are let in whatever it is."""
        self._learned.update(names)

    def read(self, records: Iterable[Record]) -> None:
        """Takes in records of the datasets topic. One that can't be used leaves the older settings in force."""
        for record in records:
            name = (record.key or b"").decode(errors="replace")
            self._latest[name] = self.latest(name).after(record)
            if record.value is None:
                self._settings.pop(name, None)
                self._judges.pop(name, None)
                self.refused.pop(name, None)
                continue
            try:
                self.put(DatasetSettings.model_validate_json(record.value))
            except ValidationError as error:
                self.refused[name] = str(invalid(error, tell=_told))
            except LabelwatchError as error:
                self.refused[name] = str(error)

    def put(self, settings: DatasetSettings) -> None:
        known = self._settings.get(settings.name)
        if known is not None and settings.version < known.version:
            return
        judge = self.made(settings)  # raises where the settings don't fit the model
        self._settings[settings.name] = settings
        self._judges[settings.name] = judge
        self.refused.pop(settings.name, None)

    def judge(self, name: str) -> Judge:
        found = self._judges.get(name)
        if found is None:
            if name not in self._learned and len({*self._judges, *self._learned}) >= self._max:
                raise InvalidInput(
                    f"{name!r} would be dataset number {self._max + 1}: use a known dataset or raise max_datasets",
                    field="dataset",
                )
            found = self.made(DatasetSettings(name=name))
            self._judges[name] = found
        return found

    def latest(self, name: str) -> Latest:
        return self._latest.get(name, Latest())

    def made(self, settings: DatasetSettings) -> Judge:
        """A judge with these settings, which is not kept; raises where they don't fit the model."""
        return Judge(self._folder, settings, min_words=self._min_words, prior_words=self._prior_words, streamed=True)

    def __contains__(self, name: str) -> bool:
        return name in self._judges

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._judges))


def read_fields(fields: Mapping[str, Any], *, strict: bool = False) -> DatasetSettings:
    """Settings as somebody writes them: a field that is not known is an error too. It names the field.

    `strict`: numbers must be numbers, as the schema says; else text that holds one will do.
    """
    try:
        if strict:
            return DatasetSettings.model_validate_json(to_json(fields), extra="forbid", strict=True)
        return DatasetSettings.model_validate(fields, extra="forbid")
    except ValidationError as error:
        raise invalid(error, tell=_told) from None


def _told(error: ErrorDetails) -> Told:
    place = list(error["loc"])
    kind = ""
    if place[:1] == ["flag_policy"] and len(place) > 1:
        kind = str(place.pop(1))  # told as if it were a field
    problem = in_words(error)
    if error["type"] == "extra_forbidden":
        known = [name for name in DatasetSettings.model_fields if name != "name"]
        problem = f"there is no such setting: use one of {', '.join(known)}"
        if kind:
            problem = f"kind {kind} has no such field"
    elif place == ["flag_policy"]:
        problem = 'give {"kind": "confident"}, {"kind": "below", "cut": …} or {"kind": "budget", "share": …}'
    return Told(problem, path(place))


def settings_record(topic: str, fields: Mapping[str, Any], *, at: datetime, request_id: str | None = None) -> Output:
    """The message that brings settings into force; `fields` may hold some that only a newer version knows."""
    name = str(fields["name"])
    headers = event_headers(DATASET, identity=str(uuid.uuid4()), at=at, request_id=request_id)
    value = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Output(topic, name.encode(), value, headers)
