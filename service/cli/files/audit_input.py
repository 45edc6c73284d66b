"""The input of an audit: the records of the files, and the label scheme that they are written in."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.errors import InvalidInput
from service.judging.class_source import get_external_classes
from service.labels import Scheme, detect_scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.audit.probs_archive import ProbsArchive
    from service.formats import FileRecord
    from service.runtime.sentence_files import FileSource

# A pipe can't be read twice: its scheme is detected from this many sentences.
SCHEME_SAMPLE_SENTENCES = 1_000


@dataclass(frozen=True, slots=True)
class AuditInput:
    """The records to audit, their scheme, and the number of sentences if it is known.

    `classes` is the class list of the first sentence's probabilities; None if it brings none.
    """

    records: Iterable[FileRecord]
    scheme: Scheme
    sentences: int | None = None
    classes: tuple[str, ...] | None = None

    def attach_probs(self, archive: ProbsArchive) -> AuditInput:
        """The same records with the probabilities of an archive."""
        return replace(self, records=archive.attach(self.records), classes=archive.classes)

    def drop_probabilities(self) -> AuditInput:
        """The same records for a model to judge."""
        return replace(self, records=map(_drop_probabilities, self.records), classes=None)


def _drop_probabilities(record: FileRecord) -> FileRecord:
    if record.sentence is None or record.sentence.probabilities is None:
        return record
    return replace(record, sentence=record.sentence.model_copy(update={"probabilities": None}))


def prepare_audit_input(
    source: FileSource, label_map: dict[str, str], *, scheme: str | None, stop_on_error: bool
) -> AuditInput:
    """Opens the files. Without `scheme` it is detected, for which files are read once more.

    `stop_on_error`: raises the error of the first sentence that can't be read.
    """
    if scheme is not None:
        records = source.iter_records()
        classes, records = _peek_classes(records)
        return AuditInput(records, Scheme(scheme), classes=classes)
    reader = _LabelReader(stop_on_error)
    if source.is_rereadable:
        detected = _detect_scheme(reader, source.iter_records(), label_map)
        return AuditInput(source.iter_records(), detected, reader.sentences, reader.classes)
    records = source.iter_records()
    sample = list(itertools.islice(records, SCHEME_SAMPLE_SENTENCES))
    detected = _detect_scheme(reader, sample, label_map)
    return AuditInput(itertools.chain(sample, records), detected, classes=reader.classes)


def _peek_classes(records: Iterator[FileRecord]) -> tuple[tuple[str, ...] | None, Iterator[FileRecord]]:
    """The class list of the first sentence's probabilities, and all records."""
    read: list[FileRecord] = []
    for record in records:
        read.append(record)
        if record.sentence is not None and not record.sentence.deleted:
            return get_external_classes(record.sentence), itertools.chain(read, records)
    return None, iter(read)


def _detect_scheme(reader: _LabelReader, records: Iterable[FileRecord], label_map: dict[str, str]) -> Scheme:
    try:
        return detect_scheme(reader.iter_labels(records), label_map)
    except InvalidInput as error:
        if error is reader.read_error or error.field != "labels":  # no option helps
            raise
        remedy = "(options --scheme and --map, such as --map PERSON=PER)"
        raise InvalidInput(f"can't detect the scheme of the labels: {error} {remedy}") from error


class _LabelReader:
    """Iterates over the labels of records, and counts the sentences."""

    def __init__(self, stop_on_error: bool) -> None:
        self._stop_on_error = stop_on_error
        self.sentences = 0
        self.classes: tuple[str, ...] | None = None  # of the first sentence's probabilities
        self.read_error: InvalidInput | None = None

    def iter_labels(self, records: Iterable[FileRecord]) -> Iterator[tuple[str, ...]]:
        for record in records:
            if record.error is not None and self._stop_on_error:
                self.read_error = record.error
                raise record.error
            if record.sentence is not None and not record.sentence.deleted:
                if not self.sentences:
                    self.classes = get_external_classes(record.sentence)
                self.sentences += 1
                yield record.sentence.labels
