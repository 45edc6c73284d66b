"""`labelwatch send FILE…`: appends the sentences of files to the input topic, as any producer would."""

from __future__ import annotations

import sys
import time
import uuid
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tqdm import tqdm

from service.cli.shared import score_options as opt
from service.cli.shared.file_options import INPUT_PANEL, FileReadOptions, add_file_options
from service.cli.shared.rejects import OnError
from service.cli.shared.terminal import STDOUT, derive_id_stem, print_stderr
from service.contracts import LabelledSentence, read_sentence
from service.errors import InvalidInput, MessageTooLargeError, SettingsError, StreamError
from service.formats import FileRecord, ReadOptions, read_records, with_file_location
from service.log.codec import build_sentence_message
from service.log.protocol import NothingAppended, Output
from service.log.topics import MAX_INPUT_BYTES
from service.runtime.dataset_schemes import DatasetSchemes
from service.runtime.open_log import build_topics, open_log
from service.settings import read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Log

STDIN = STDOUT  # both are called `-`
MAX_BATCH_SENTENCES = 500
MAX_BATCH_BYTES = 4 * MAX_INPUT_BYTES

DatasetOption = Annotated[
    str | None,
    typer.Option(metavar="D", help="Dataset of all sentences; without: what each says itself, else `default`."),
]
UpdateOption = Annotated[
    bool,
    typer.Option(
        "--update",
        help="They replace earlier annotations: open review items are closed or renewed. A sentence without a revision "
        "gets the time as its revision.",
    ),
]
AnnotatorOption = Annotated[str | None, typer.Option(metavar="A", help="Annotator of all sentences.")]
IdPrefixOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Put before the number of a sentence without an id; without: the file's name and a colon."
    ),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        rich_help_panel=INPUT_PANEL,
        help="At a sentence that can't be read: stop (of files that can be read twice, nothing is sent then), or skip "
        "it and tell it on stderr.",
    ),
]


@dataclass(frozen=True, slots=True)
class FileSource:
    """Files and how to read them."""

    files: list[str]
    form: str | None
    options: ReadOptions
    id_prefix: str | None

    def iter_records(self) -> Iterator[FileRecord]:
        for file in self.files:
            called = f"stdin-{uuid.uuid4().hex[:12]}" if file == STDIN else derive_id_stem(file, self.files)
            prefix = self.id_prefix if self.id_prefix is not None else f"{called}:"
            yield from read_records(file, format=self.form, options=replace(self.options, id_prefix=prefix))

    @property
    def is_rereadable(self) -> bool:
        return all(name != STDIN and Path(name).is_file() for name in self.files)


@add_file_options
def send(
    *,
    reading: FileReadOptions,
    dataset: DatasetOption = None,
    update: UpdateOption = False,
    annotator: AnnotatorOption = None,
    id_prefix: IdPrefixOption = None,
    on_error: OnErrorOption = "stop",
    progress: opt.ProgressOption = None,
) -> None:
    """Send the sentences of files to the input topic. They are safe in the log when the command ends."""
    settings = read_settings()
    topics = build_topics(settings)
    options = reading.to_read_options(max_words=settings.worker.max_words)
    source = FileSource(reading.files, reading.format, options, id_prefix)
    change = SentenceOverrides.from_options(dataset=dataset, annotator=annotator, update=update)
    total = _count_valid_sentences(source, change) if on_error == "stop" and source.is_rereadable else None
    log = None if settings.kafka is not None else settings.log.path.absolute()
    new = log is not None and not log.exists()
    with ExitStack() as stack:
        stream = stack.enter_context(closing(open_log(settings)))
        if new:
            print_stderr(
                f"labelwatch: {log} is a new log: only who starts in this folder or has this LABELWATCH_LOG_PATH reads it"
            )
        hidden = not (sys.stderr.isatty() if progress is None else progress)
        bar = stack.enter_context(tqdm(total=total, unit=" sentences", file=sys.stderr, disable=hidden))
        sending = BatchSender(stream, topics.sentences, bar)
        schemes = DatasetSchemes(settings, stream, topics)
        skipped = 0
        try:
            for record in source.iter_records():
                try:
                    sending.add(build_file_message(change.to_dataset_scheme(record, schemes), change, topics.sentences))
                except InvalidInput as error:
                    if on_error == "stop":
                        sending.flush()
                        before = pluralize(sending.sent, "sentence")
                        raise InvalidInput(f"{error}; {before} before it were sent") from error
                    skipped += 1
                    bar.clear()
                    print_stderr(f"labelwatch: skipped {error}")
            sending.flush()
        except KeyboardInterrupt:
            raise StreamError(f"interrupted: {sending.describe_progress()}") from None
        except StreamError as error:
            raise StreamError(
                f"{error}; {sending.describe_progress(refused=isinstance(error, NothingAppended))}"
            ) from error
    left_out = f", {skipped:,} skipped" if skipped else ""
    where = f" in {log}" if log is not None else ""
    typer.echo(f"{pluralize(sending.sent, 'sentence')} sent to {topics.sentences}{where}{left_out}")


@dataclass(frozen=True, slots=True)
class SentenceOverrides:
    """What the command line says of every sentence; it counts before what the files say."""

    fields: dict[str, Any]
    revision: int | None  # of sentences that have none

    @classmethod
    def from_options(cls, *, dataset: str | None, annotator: str | None, update: bool) -> SentenceOverrides:
        fields: dict[str, Any] = {"dataset": dataset, "annotator": annotator, "update": update or None}
        fields = {name: value for name, value in fields.items() if value is not None}
        try:
            read_sentence({"tokens": ["x"], "labels": ["O"], **fields})
        except InvalidInput as error:
            raise SettingsError(f"--{error.field}: {error.problem}") from error
        return cls(fields, time.time_ns() // 1000 if update else None)

    def to_dataset_scheme(self, record: FileRecord, schemes: DatasetSchemes) -> FileRecord:
        """Labels of spans are written as the dataset has them, whether they come by a file or by a webhook."""
        if record.sentence is None:
            return record
        dataset = self.fields.get("dataset", record.sentence.dataset)
        return replace(record, sentence=schemes.to_dataset_scheme(record.sentence, dataset))

    def apply(self, sentence: LabelledSentence) -> LabelledSentence:
        fields = self.fields
        if self.revision is not None and "revision" not in sentence.model_fields_set:
            fields = {**fields, "revision": self.revision}
        return sentence.model_copy(update=fields) if fields else sentence


def build_file_message(record: FileRecord, overrides: SentenceOverrides, topic: str) -> Output:
    if record.sentence is None:
        raise record.error or InvalidInput(f"{record.location}: no sentence")
    try:
        return build_sentence_message(topic, overrides.apply(record.sentence))
    except MessageTooLargeError as error:
        raise with_file_location(error, record.location) from error


def _count_valid_sentences(source: FileSource, overrides: SentenceOverrides) -> int:
    """Reads everything once before anything is sent: what is half sent can't be taken back, and would teach twice."""
    found = 0
    for record in source.iter_records():
        build_file_message(record, overrides, "")
        found += 1
    return found


class BatchSender:
    """Appends in batches, each safe in the log before the next."""

    def __init__(self, stream: Log, topic: str, bar: tqdm[Any]) -> None:
        self._stream = stream
        self._bar = bar
        self._pending: list[Output] = []
        self._pending_bytes = 0
        self.topic = topic
        self.sent = 0

    def add(self, message: Output) -> None:
        self._pending.append(message)
        self._pending_bytes += len(message.value or b"")
        if len(self._pending) >= MAX_BATCH_SENTENCES or self._pending_bytes >= MAX_BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._pending:
            return
        self._stream.append(self._pending)
        self.sent += len(self._pending)
        self._bar.update(len(self._pending))
        self._pending, self._pending_bytes = [], 0

    def describe_progress(self, *, refused: bool = False) -> str:
        """`refused`: none of those that wait can be in the log."""
        if refused and not self.sent:
            return "nothing was sent"
        sure = f"the first {pluralize(self.sent, 'sentence')} are in {self.topic}"
        if not self._pending:
            return sure
        return f"{sure}, of the next {len(self._pending):,} {'none is' if refused else 'some may be'}"
