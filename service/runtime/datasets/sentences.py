"""What the log stores of a dataset, to train on: the newest revisions, with reviewers' corrections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.contracts import DatasetSettings
from service.datasets.registry import check_dataset_exists
from service.errors import InvalidInput
from service.formats import FileRecord
from service.labels import OUTSIDE, LabelSet, Scheme, detect_scheme
from service.log.read import read_topic
from service.review.stored_sentences import StoredSentences, correct_sentence, read_decisions, read_stored_sentence
from service.runtime.datasets.settings import read_dataset_settings
from service.stream.state.reader import read_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.contracts import LabelledSentence
    from service.log.protocol import Log
    from service.log.topics import Topics


class DatasetSource:
    """The sentences of a dataset that can be trained on. They can be read any number of times.

    Sentences with a label outside an explicit label set are left out: the service does not judge them either. Labels that
    the dataset maps to `O` are `O`. Its other mappings are for a model with other names and do not count.
    """

    def __init__(self, log: Log, topics: Topics, dataset: str, *, scheme: Scheme | None = None) -> None:
        """Without `scheme` it is that of the settings, else detected from the labels."""
        self.dataset = dataset
        self._sentences = StoredSentences(log, topics, dataset)
        settings = read_dataset_settings(log, topics).get(dataset) or DatasetSettings(name=dataset)
        self._decisions = read_decisions(log, topics, dataset, overlap=settings.overlap)
        self._outside = select_outside_labels(settings)
        self.scheme = scheme or self._find_scheme(settings)
        self._label_set = None if settings.label_set is None else LabelSet.build(settings.label_set, self.scheme)

    def _find_scheme(self, settings: DatasetSettings) -> Scheme:
        if settings.scheme is not None:
            return Scheme(settings.scheme)
        try:
            return detect_scheme((sentence.labels for sentence in self._sentences), self._outside)
        except InvalidInput as error:
            raise InvalidInput(
                f"can't detect the scheme of the labels of {self.dataset}: {error} (`labelwatch datasets set "
                f"{self.dataset} scheme=…`)"
            ) from error

    def __iter__(self) -> Iterator[LabelledSentence]:
        for sentence in self._sentences:
            decisions = self._decisions.settle(sentence).counted
            given = correct_sentence(sentence, decisions, scheme=self.scheme, label_set=self._label_set).sentence
            if self._label_set is not None and not all(
                label in self._outside or self._label_set.contains(label) for label in given.labels
            ):
                continue
            if self._outside:
                labels = tuple(self._outside.get(label, label) for label in given.labels)
                given = given.model_copy(update={"labels": labels})
            yield given

    def iter_records(self) -> Iterator[FileRecord]:
        """The sentences as an audit reads them."""
        for sentence in self:
            yield FileRecord(f"{self.dataset}/{sentence.id}", sentence)


def select_outside_labels(settings: DatasetSettings) -> dict[str, str]:
    """The entries of the label map that say how the dataset spells `O`. They hold for any model."""
    return {label: name for label, name in settings.label_map.items() if name == OUTSIDE}


def check_dataset_stored(log: Log, topics: Topics, dataset: str) -> None:
    """Raises an error for an unknown dataset: nothing for a misspelt name would look like a result."""
    received = set()
    for record in read_topic(log, topics.sentences):
        try:
            received.add(read_stored_sentence(record).dataset)
        except InvalidInput:
            continue
    settings, statistics = read_dataset_settings(log, topics), read_state(log, topics).snapshot
    check_dataset_exists(dataset, sorted({*settings, *statistics.datasets, *received}))
