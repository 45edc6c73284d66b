"""`labelwatch send FILE…`: appends the sentences of files to the input topic, as any producer would."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tqdm import tqdm

from service.cli.shared.file_options import INPUT_PANEL, FileReadOptions, add_file_options, describe_empty_files
from service.cli.shared.options import ProgressOption
from service.cli.shared.rejects import OnError
from service.cli.shared.terminal import print_stderr
from service.contracts import read_sentence
from service.errors import InvalidInput, SettingsError, StreamError
from service.log.protocol import NothingAppended, Output
from service.log.topics import MAX_INPUT_BYTES
from service.runtime.datasets.schemes import DatasetSchemes
from service.runtime.open_log import build_topics, open_log
from service.runtime.sentence_files import FileSource, SentenceOverrides, build_file_message
from service.settings import read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from service.log.protocol import Log

MAX_BATCH_SENTENCES = 500
MAX_BATCH_BYTES = 4 * MAX_INPUT_BYTES

DatasetOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Dataset of all sentences. Default: the sentence's own, else `default`."),
]
UpdateOption = Annotated[
    bool,
    typer.Option(
        "--update",
        help="Replace earlier annotations: open review items are closed or updated. A sentence without a revision gets "
        "the current time as its revision.",
    ),
]
AnnotatorOption = Annotated[str | None, typer.Option(metavar="NAME", help="Annotator of all sentences.")]
BatchOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Delivery that all sentences are part of. Default: the sentence's own. `labelwatch accept` judges it.",
    ),
]
IdPrefixOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Prefix for the number of a sentence without an id. Default: the file name and a colon.",
    ),
]
OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        rich_help_panel=INPUT_PANEL,
        help="If a sentence can't be read: stop (nothing is sent, unless the input is a pipe), or skip it and report it "
        "on stderr.",
    ),
]


@add_file_options
def send(
    *,
    input_files: FileReadOptions,
    dataset: DatasetOption = None,
    update: UpdateOption = False,
    annotator: AnnotatorOption = None,
    batch: BatchOption = None,
    id_prefix: IdPrefixOption = None,
    on_error: OnErrorOption = "stop",
    progress: ProgressOption = None,
) -> None:
    """Send the sentences of files to the input topic. They are safe in the log when the command ends."""
    settings = read_settings()
    topics = build_topics(settings)
    source = FileSource(
        input_files.files,
        input_files.to_read_options(max_words=settings.worker.max_words),
        format=input_files.format,
        id_prefix=id_prefix,
    )
    overrides = _build_overrides(dataset=dataset, annotator=annotator, batch=batch, update=update)
    total = _count_valid_sentences(source, overrides) if on_error == "stop" and source.is_rereadable else None
    no_sentence = InvalidInput(f"{describe_empty_files(input_files.files)}: nothing was sent")
    if total == 0:  # an export that broke must not go unnoticed
        raise no_sentence
    log_path = None if settings.kafka is not None else settings.log.path.absolute()
    is_new_log = log_path is not None and not log_path.exists()
    hide_progress = not (sys.stderr.isatty() if progress is None else progress)
    with closing(open_log(settings)) as log:
        if is_new_log:
            print_stderr(
                f"labelwatch: {log_path} is a new log. Commands read it if they start in this folder or have this "
                "LABELWATCH_LOG_PATH"
            )
        with tqdm(total=total, unit=" sentences", file=sys.stderr, disable=hide_progress) as bar:
            sender = BatchSender(log, topics.sentences, bar)
            schemes = DatasetSchemes(settings, log, topics)
            _send_records(source, overrides, schemes, sender, stop_on_error=on_error == "stop")
    if not sender.sent and not sender.skipped:
        raise no_sentence
    skipped = f", {sender.skipped:,} skipped" if sender.skipped else ""
    location = f" in {log_path}" if log_path is not None else ""
    typer.echo(f"{pluralize(sender.sent, 'sentence')} sent to {topics.sentences}{location}{skipped}")


def _send_records(
    source: FileSource,
    overrides: SentenceOverrides,
    schemes: DatasetSchemes,
    sender: BatchSender,
    *,
    stop_on_error: bool,
) -> None:
    """Sends all records. An error says how many sentences the log holds."""
    try:
        for record in source.iter_records():
            try:
                converted = overrides.to_dataset_scheme(record, schemes)
                sender.add(build_file_message(converted, overrides, sender.topic))
            except InvalidInput as error:
                if stop_on_error:
                    sender.flush()
                    before = pluralize(sender.sent, "sentence")
                    raise InvalidInput(f"{error}; {before} before it were sent") from error
                sender.skip(error)
        sender.flush()
    except KeyboardInterrupt:
        raise StreamError(f"interrupted: {sender.describe_progress()}") from None
    except StreamError as error:
        progress = sender.describe_progress(refused=isinstance(error, NothingAppended))
        raise StreamError(f"{error}; {progress}") from error


def _build_overrides(
    *, dataset: str | None, annotator: str | None, batch: str | None, update: bool
) -> SentenceOverrides:
    options: dict[str, Any] = {"dataset": dataset, "annotator": annotator, "batch": batch, "update": update or None}
    fields = {name: value for name, value in options.items() if value is not None}
    try:
        read_sentence({"tokens": ["x"], "labels": ["O"], **fields})
    except InvalidInput as error:
        raise SettingsError(f"--{error.field}: {error.problem}") from error
    return SentenceOverrides(fields, revision=time.time_ns() // 1000 if update else None)


def _count_valid_sentences(source: FileSource, overrides: SentenceOverrides) -> int:
    """Reads the files once before anything is sent. Half a file can't be unsent, and sent again would count twice."""
    count = 0
    for record in source.iter_records():
        build_file_message(record, overrides, "")
        count += 1
    return count


class BatchSender:
    """Appends in batches, each safe in the log before the next."""

    def __init__(self, log: Log, topic: str, bar: tqdm[Any]) -> None:
        self._log = log
        self._bar = bar
        self._pending: list[Output] = []
        self._pending_bytes = 0
        self.topic = topic
        self.sent = 0
        self.skipped = 0

    def add(self, message: Output) -> None:
        self._pending.append(message)
        self._pending_bytes += len(message.value or b"")
        if len(self._pending) >= MAX_BATCH_SENTENCES or self._pending_bytes >= MAX_BATCH_BYTES:
            self.flush()

    def skip(self, error: InvalidInput) -> None:
        self.skipped += 1
        self._bar.clear()
        print_stderr(f"labelwatch: skipped {error}")

    def flush(self) -> None:
        if not self._pending:
            return
        self._log.append(self._pending)
        self.sent += len(self._pending)
        self._bar.update(len(self._pending))
        self._pending, self._pending_bytes = [], 0

    def describe_progress(self, *, refused: bool = False) -> str:
        """What the log holds after an error. `refused`: the log holds nothing of the pending batch."""
        if refused and not self.sent:
            return "nothing was sent"
        sent = f"the first {pluralize(self.sent, 'sentence')} are in {self.topic}"
        if not self._pending:
            return sent
        return f"{sent}, of the next {len(self._pending):,} {'none is' if refused else 'some may be'}"
