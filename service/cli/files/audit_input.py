"""The input of an audit: the records of the files, and the label scheme that they are written in."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.errors import InvalidInput
from service.labels import Scheme, detect_scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.formats import FileRecord
    from service.runtime.sentence_files import FileSource

# A pipe can't be read twice: its scheme is detected from this many sentences.
SCHEME_SAMPLE_SENTENCES = 1_000


@dataclass(frozen=True, slots=True)
class AuditInput:
    """The records to audit, their scheme, and the number of sentences if it is known."""

    records: Iterable[FileRecord]
    scheme: Scheme
    sentences: int | None = None


def prepare_audit_input(
    source: FileSource, label_map: dict[str, str], *, scheme: str | None, stop_on_error: bool
) -> AuditInput:
    """Opens the files. Without `scheme` it is detected, for which files are read once more.

    `stop_on_error`: raises the error of the first sentence that can't be read.
    """
    if scheme is not None:
        return AuditInput(source.iter_records(), Scheme(scheme))
    reader = _LabelReader(stop_on_error)
    if source.is_rereadable:
        detected = _detect_scheme(reader, source.iter_records(), label_map)
        return AuditInput(source.iter_records(), detected, reader.sentences)
    records = source.iter_records()
    sample = list(itertools.islice(records, SCHEME_SAMPLE_SENTENCES))
    return AuditInput(itertools.chain(sample, records), _detect_scheme(reader, sample, label_map))


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
        self.read_error: InvalidInput | None = None

    def iter_labels(self, records: Iterable[FileRecord]) -> Iterator[tuple[str, ...]]:
        for record in records:
            if record.error is not None and self._stop_on_error:
                self.read_error = record.error
                raise record.error
            if record.sentence is not None and not record.sentence.deleted:
                self.sentences += 1
                yield record.sentence.labels
