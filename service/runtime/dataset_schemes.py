"""The label scheme of each dataset, for commands that convert between spans and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ModelError, UnknownLabelError
from service.formats.text.alignment import get_given_scheme
from service.inference.model.default import find_default_model
from service.inference.model.manifest import read_manifest
from service.labels import Scheme, convert_scheme
from service.runtime.dataset_settings import read_dataset_settings

if TYPE_CHECKING:
    from service.contracts import LabelledSentence
    from service.log.protocol import Log
    from service.log.topics import Topics
    from service.settings import Settings


class DatasetSchemes:
    """The dataset's own scheme, else the model's, as the judge reads the labels. Read when it is first needed."""

    def __init__(self, settings: Settings, log: Log, topics: Topics) -> None:
        self._settings = settings
        self._log = log
        self._topics = topics
        self._scheme_by_dataset: dict[str, Scheme] | None = None
        self._model_scheme: Scheme | None = None

    def get(self, dataset: str) -> Scheme:
        if self._scheme_by_dataset is None:
            settings_by_dataset = read_dataset_settings(self._log, self._topics)
            self._scheme_by_dataset = {
                name: Scheme(settings.scheme) for name, settings in settings_by_dataset.items() if settings.scheme
            }
        return self._scheme_by_dataset.get(dataset) or self._read_model_scheme()

    def _read_model_scheme(self) -> Scheme:
        """The scheme of the model. A machine that only sends may have no model: then IOB2, the most common."""
        if self._model_scheme is None:
            try:
                manifest, _ = read_manifest(self._settings.model.folder or find_default_model())
            except ModelError:
                self._model_scheme = Scheme.IOB2
            else:
                self._model_scheme = manifest.scheme
        return self._model_scheme

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
