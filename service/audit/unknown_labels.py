"""Counts the labels of an input that the model has no class for."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from service.errors import LabelwatchError
from service.labels.unknown_labels import format_names, truncate_label
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.formats.records import FileRecord
    from service.labels import LabelMap

MAX_COUNTED_LABELS = 1_000


class UnknownLabelCounter:
    """Passes records on and counts the words of each label that the label map does not accept."""

    def __init__(self, records: Iterable[FileRecord], label_map: LabelMap) -> None:
        self._records = iter(records)
        self._label_map = label_map
        self._accepted: dict[str, bool] = {}
        self.words: Counter[str] = Counter()

    def __iter__(self) -> Iterator[FileRecord]:
        return self

    def __next__(self) -> FileRecord:
        record = next(self._records)
        for label in record.sentence.labels if record.sentence is not None else ():
            if not self._is_accepted(label) and (label in self.words or len(self.words) < MAX_COUNTED_LABELS):
                self.words[label] += 1
        return record

    def _is_accepted(self, label: str) -> bool:
        accepted = self._accepted.get(label)
        if accepted is None:
            accepted = self._label_map.accepts(label)
            if len(self._accepted) < MAX_COUNTED_LABELS:
                self._accepted[label] = accepted
        return accepted

    def read_rest(self) -> None:
        """Counts the labels of the records that nobody read, up to the end or to a line that can't be read."""
        with suppress(LabelwatchError):
            for _ in self:
                pass

    def describe(self) -> str:
        """All labels without a class, most frequent first."""
        names = [f"{truncate_label(label)} ({pluralize(count, 'word')})" for label, count in self.words.most_common()]
        return f"labels without a class: {format_names(names)}"
