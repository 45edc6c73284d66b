"""Sentences from files as messages for the input topic, for `labelwatch send` and the sample feed of `labelwatch up`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.errors import InvalidInput, MessageTooLargeError
from service.formats import FileRecord, ReadOptions, read_records, with_file_location
from service.log.codec import build_sentence_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.contracts import LabelledSentence
    from service.log.protocol import Output
    from service.runtime.datasets.schemes import DatasetSchemes

STDIN = "-"


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files and how to read them."""

    files: Sequence[str]
    options: ReadOptions
    format: str | None = None
    """None: detected from the name and the content."""
    id_prefix: str | None = None
    """Put before the number of a sentence without an id. None: the file's name and a colon."""
    stdin_stem: str | None = None
    """The name of standard input in ids. None: a new one for each run."""

    def iter_records(self) -> Iterator[FileRecord]:
        for file in self.files:
            prefix = self.id_prefix if self.id_prefix is not None else f"{self._derive_id_stem(file)}:"
            yield from read_records(file, format=self.format, options=replace(self.options, id_prefix=prefix))

    @property
    def is_rereadable(self) -> bool:
        """Whether all files can be read twice. Standard input and pipes can't."""
        return all(file != STDIN and Path(file).is_file() for file in self.files)

    def _derive_id_stem(self, file: str) -> str:
        """The part of a sentence id that names its file: the file name, or its path if two files have the same name."""
        if file == STDIN:
            return self.stdin_stem or f"stdin-{uuid.uuid4().hex[:12]}"
        name = Path(file).name
        return name if sum(Path(other).name == name for other in self.files) == 1 else file


@dataclass(frozen=True, slots=True)
class SentenceOverrides:
    """Fields that replace those of every sentence of the files."""

    fields: Mapping[str, Any]
    revision: int | None = None
    """The revision of sentences that have none."""

    def to_dataset_scheme(self, record: FileRecord, schemes: DatasetSchemes) -> FileRecord:
        """The record with labels made from spans in the scheme of its dataset, as webhooks send them too."""
        if record.sentence is None:
            return record
        dataset = self.fields.get("dataset", record.sentence.dataset)
        return replace(record, sentence=schemes.to_dataset_scheme(record.sentence, dataset))

    def apply(self, sentence: LabelledSentence) -> LabelledSentence:
        fields = dict(self.fields)
        if self.revision is not None and "revision" not in sentence.model_fields_set:
            fields["revision"] = self.revision
        return sentence.model_copy(update=fields) if fields else sentence


def build_file_message(record: FileRecord, overrides: SentenceOverrides, topic: str) -> Output:
    """The message of a file's record. A record that is no sentence raises its error, with file and line."""
    if record.sentence is None:
        raise record.error or InvalidInput(f"{record.location}: no sentence")
    try:
        return build_sentence_message(topic, overrides.apply(record.sentence))
    except MessageTooLargeError as error:
        raise with_file_location(error, record.location) from error
