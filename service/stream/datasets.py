"""The datasets a worker knows: their settings as the datasets topic tells them, and a judge for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from service.contracts import DatasetSettings
from service.errors import InvalidInput, LabelwatchError
from service.pipeline import Judge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.inference.folder import ModelFolder
    from service.stream.base import Record

MAX_DATASETS = 1_000


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
        self.refused: dict[str, str] = {}

    def read(self, records: Iterable[Record]) -> None:
        """Takes in records of the datasets topic. One that can't be used leaves the older settings in force."""
        for record in records:
            name = (record.key or b"").decode(errors="replace")
            if record.value is None:
                self._settings.pop(name, None)
                self._judges.pop(name, None)
                self.refused.pop(name, None)
                continue
            try:
                self.put(DatasetSettings.model_validate_json(record.value))
            except (ValidationError, LabelwatchError) as error:
                self.refused[name] = str(error)

    def put(self, settings: DatasetSettings) -> None:
        known = self._settings.get(settings.name)
        if known is not None and settings.version < known.version:
            return
        judge = self._made(settings)  # raises where the settings don't fit the model
        self._settings[settings.name] = settings
        self._judges[settings.name] = judge
        self.refused.pop(settings.name, None)

    def judge(self, name: str) -> Judge:
        found = self._judges.get(name)
        if found is None:
            if len(self._judges) >= self._max:
                raise InvalidInput(
                    f"{name!r} would be dataset number {self._max + 1}: use a known dataset or raise max_datasets",
                    field="dataset",
                )
            found = self._made(DatasetSettings(name=name))
            self._judges[name] = found
        return found

    def _made(self, settings: DatasetSettings) -> Judge:
        return Judge(self._folder, settings, min_words=self._min_words, prior_words=self._prior_words)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._judges))
