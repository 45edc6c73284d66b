"""The label scheme of each dataset, for commands that convert between spans and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ModelError, UnknownLabelError
from service.formats.text.alignment import get_given_scheme
from service.inference.model.manifest import read_manifest
from service.labels import Scheme, convert_scheme
from service.runtime.datasets.settings import read_dataset_settings
from service.runtime.load_model import find_model

if TYPE_CHECKING:
    from service.contracts import DatasetSettings, LabelledSentence
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.settings import Settings


class DatasetSchemes:
    """The dataset's own scheme, else that of its model, as the judge reads the labels. Read when it is first needed."""

    def __init__(self, settings: Settings, log: Log, topics: Topics) -> None:
        self._settings = settings
        self._log = log
        self._topics = topics
        self._dataset_settings: dict[str, DatasetSettings] | None = None
        self._scheme_by_model: dict[str | None, Scheme] = {}

    def get(self, dataset: str) -> Scheme:
        if self._dataset_settings is None:
            self._dataset_settings = read_dataset_settings(self._log, self._topics)
        settings = self._dataset_settings.get(dataset)
        if settings is not None and settings.scheme is not None:
            return Scheme(settings.scheme)
        model = None if settings is None else settings.model
        if model not in self._scheme_by_model:
            self._scheme_by_model[model] = self._read_model_scheme(model)
        return self._scheme_by_model[model]

    def _read_model_scheme(self, model: str | None) -> Scheme:
        """The scheme of a model. A machine that only sends may not have it: then IOB2, the most common."""
        try:
            return read_manifest(find_model(model, self._settings))[0].scheme
        except ModelError:
            return Scheme.IOB2

    def to_dataset_scheme(self, sentence: LabelledSentence, dataset: str) -> LabelledSentence:
        """The sentence with labels that were made from spans in the dataset's scheme. Other labels do not change."""
        meta = sentence.meta or {}
        if sentence.deleted or "splitter" not in meta or "scheme" not in meta:
            return sentence
        source, target = get_given_scheme(sentence), self.get(dataset)
        if source is target:
            return sentence
        try:
            labels = tuple(convert_scheme(sentence.labels, source, target))
        except UnknownLabelError:  # they were corrected in another scheme
            return sentence
        return sentence.model_copy(update={"labels": labels, "meta": {**meta, "scheme": target.value}})
