"""The scheme in which a dataset writes its labels, for commands that make labels of spans or spans of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.contracts import DatasetSettings
from service.errors import ModelError, UnknownLabelError
from service.formats.text.alignment import given_scheme
from service.inference.model.default import default_model
from service.inference.model.manifest import read_manifest
from service.labels import Scheme, convert
from service.runtime.open_log import read_datasets

if TYPE_CHECKING:
    from service.contracts import LabelledSentence
    from service.log.protocol import Stream
    from service.log.topics import Topics
    from service.settings import Settings


class Schemes:
    """A dataset's own, else the model's: as who judges the labels reads them. Looked up when they are first needed."""

    def __init__(self, settings: Settings, stream: Stream, topics: Topics) -> None:
        self._settings = settings
        self._stream = stream
        self._topics = topics
        self._set: dict[str, Scheme] | None = None
        self._usual: Scheme | None = None

    def of(self, dataset: str) -> Scheme:
        if self._set is None:
            found = map(DatasetSettings.model_validate_json, read_datasets(self._stream, self._topics).values())
            self._set = {one.name: Scheme(one.scheme) for one in found if one.scheme}
        return self._set.get(dataset) or self._models()

    def _models(self) -> Scheme:
        """Who only sends may have no model at hand: most have IOB2."""
        if self._usual is None:
            try:
                manifest, _ = read_manifest(self._settings.model.folder or default_model())
            except ModelError:
                self._usual = Scheme.IOB2
            else:
                self._usual = manifest.scheme
        return self._usual

    def written(self, sentence: LabelledSentence, dataset: str) -> LabelledSentence:
        """With the labels that spans became in the dataset's scheme. What came as labels stays as it is."""
        meta = sentence.meta or {}
        if sentence.deleted or "splitter" not in meta or "scheme" not in meta:
            return sentence
        source, target = given_scheme(sentence), self.of(dataset)
        if source is target:
            return sentence
        try:
            labels = tuple(convert(sentence.labels, source, target))
        except UnknownLabelError:  # they were corrected in another scheme since
            return sentence
        return sentence.model_copy(update={"labels": labels, "meta": {**meta, "scheme": target.value}})
