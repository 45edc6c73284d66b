"""`labelwatch send FILE…`: appends the sentences of files to the input topic, as any producer would."""

from __future__ import annotations

import sys
import time
import uuid
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tqdm import tqdm

from service.cli.shared import score_options as opt
from service.cli.shared.file_options import PANEL, Reading, reads_files
from service.cli.shared.rejects import OnError
from service.cli.shared.terminal import STDOUT, called_in_ids, say
from service.contracts import LabelledSentence, read_sentence
from service.errors import InvalidInput, SettingsError, StreamError
from service.formats import Options, Record, placed, read_records
from service.log.codec import SENTENCE, event_headers
from service.log.protocol import NothingAppended, Output
from service.log.topics import MAX_INPUT_BYTES
from service.runtime.dataset_schemes import Schemes
from service.runtime.open_log import open_stream, topics_of
from service.settings import read_settings
from service.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Stream

STDIN = STDOUT  # both are called `-`
BATCH_SENTENCES = 500
BATCH_BYTES = 4 * MAX_INPUT_BYTES
MAX_VALUE_BYTES = MAX_INPUT_BYTES - 4096  # key and headers count too

Dataset = Annotated[
    str | None,
    typer.Option(metavar="D", help="Dataset of all sentences; without: what each says itself, else `default`."),
]
Update = Annotated[
    bool,
    typer.Option(
        "--update",
        help="They replace earlier annotations: open review items are closed or renewed. A sentence without a revision "
        "gets the time as its revision.",
    ),
]
Annotator = Annotated[str | None, typer.Option(metavar="A", help="Annotator of all sentences.")]
IdPrefix = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Put before the number of a sentence without an id; without: the file's name and a colon."
    ),
]
Skip = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        rich_help_panel=PANEL,
        help="At a sentence that can't be read: stop (of files that can be read twice, nothing is sent then), or skip "
        "it and tell it on stderr.",
    ),
]


@dataclass(frozen=True, slots=True)
class Source:
    """Files and how to read them."""

    files: list[str]
    form: str | None
    options: Options
    id_prefix: str | None

    def records(self) -> Iterator[Record]:
        for file in self.files:
            called = f"stdin-{uuid.uuid4().hex[:12]}" if file == STDIN else called_in_ids(file, self.files)
            prefix = self.id_prefix if self.id_prefix is not None else f"{called}:"
            yield from read_records(file, format=self.form, options=replace(self.options, id_prefix=prefix))

    @property
    def readable_twice(self) -> bool:
        return all(name != STDIN and Path(name).is_file() for name in self.files)


@reads_files
def send(
    *,
    reading: Reading,
    dataset: Dataset = None,
    update: Update = False,
    annotator: Annotator = None,
    id_prefix: IdPrefix = None,
    on_error: Skip = "stop",
    progress: opt.Bar = None,
) -> None:
    """Send the sentences of files to the input topic. They are safe in the log when the command ends."""
    settings = read_settings()
    topics = topics_of(settings)
    options = reading.options(max_words=settings.worker.max_words)
    source = Source(reading.files, reading.format, options, id_prefix)
    change = Change.of(dataset=dataset, annotator=annotator, update=update)
    total = _checked(source, change) if on_error == "stop" and source.readable_twice else None
    log = None if settings.kafka is not None else settings.log.path.absolute()
    new = log is not None and not log.exists()
    with ExitStack() as stack:
        stream = stack.enter_context(closing(open_stream(settings, topics=topics)))
        if new:
            say(
                f"labelwatch: {log} is a new log: only who starts in this folder or has this LABELWATCH_LOG_PATH reads it"
            )
        hidden = not (sys.stderr.isatty() if progress is None else progress)
        bar = stack.enter_context(tqdm(total=total, unit=" sentences", file=sys.stderr, disable=hidden))
        sending = Sending(stream, topics.sentences, bar)
        schemes = Schemes(settings, stream, topics)
        skipped = 0
        try:
            for record in source.records():
                try:
                    sending.add(message_of(change.in_scheme(record, schemes), change, topics.sentences))
                except InvalidInput as error:
                    if on_error == "stop":
                        sending.flush()
                        before = plural(sending.sent, "sentence")
                        raise InvalidInput(f"{error}; {before} before it were sent") from error
                    skipped += 1
                    bar.clear()
                    say(f"labelwatch: skipped {error}")
            sending.flush()
        except KeyboardInterrupt:
            raise StreamError(f"interrupted: {sending.so_far()}") from None
        except StreamError as error:
            raise StreamError(f"{error}; {sending.so_far(refused=isinstance(error, NothingAppended))}") from error
    left_out = f", {skipped:,} skipped" if skipped else ""
    where = f" in {log}" if log is not None else ""
    typer.echo(f"{plural(sending.sent, 'sentence')} sent to {topics.sentences}{where}{left_out}")


@dataclass(frozen=True, slots=True)
class Change:
    """What the command line says of every sentence; it counts before what the files say."""

    fields: dict[str, Any]
    revision: int | None  # of sentences that have none

    @classmethod
    def of(cls, *, dataset: str | None, annotator: str | None, update: bool) -> Change:
        fields: dict[str, Any] = {"dataset": dataset, "annotator": annotator, "update": update or None}
        fields = {name: value for name, value in fields.items() if value is not None}
        try:
            read_sentence({"tokens": ["x"], "labels": ["O"], **fields})
        except InvalidInput as error:
            raise SettingsError(f"--{error.field}: {error.problem}") from error
        return cls(fields, time.time_ns() // 1000 if update else None)

    def in_scheme(self, record: Record, schemes: Schemes) -> Record:
        """Labels of spans are written as the dataset has them, whether they come by a file or by a webhook."""
        if record.sentence is None:
            return record
        dataset = self.fields.get("dataset", record.sentence.dataset)
        return replace(record, sentence=schemes.written(record.sentence, dataset))

    def made(self, sentence: LabelledSentence) -> LabelledSentence:
        fields = self.fields
        if self.revision is not None and "revision" not in sentence.model_fields_set:
            fields = {**fields, "revision": self.revision}
        return sentence.model_copy(update=fields) if fields else sentence


def message_of(record: Record, change: Change, topic: str) -> Output:
    if record.sentence is None:
        raise record.error or InvalidInput(f"{record.place}: no sentence")
    sentence = change.made(record.sentence)
    value = sentence.model_dump_json(exclude_defaults=True).encode()
    if len(value) > MAX_VALUE_BYTES:
        told = f"the message has {len(value):,} bytes, at most {MAX_VALUE_BYTES:,} are taken: split it"
        raise placed(InvalidInput(told), record.place)
    headers = event_headers(SENTENCE, identity=str(uuid.uuid4()), at=datetime.now(UTC))
    return Output(topic, f"{sentence.dataset}/{sentence.id}".encode(), value, headers)


def _checked(source: Source, change: Change) -> int:
    """Reads everything once before anything is sent: what is half sent can't be taken back, and would teach twice."""
    found = 0
    for record in source.records():
        message_of(record, change, "")
        found += 1
    return found


class Sending:
    """Appends in batches, each safe in the log before the next."""

    def __init__(self, stream: Stream, topic: str, bar: tqdm[Any]) -> None:
        self._stream = stream
        self._bar = bar
        self._waiting: list[Output] = []
        self._bytes = 0
        self.topic = topic
        self.sent = 0

    def add(self, message: Output) -> None:
        self._waiting.append(message)
        self._bytes += len(message.value or b"")
        if len(self._waiting) >= BATCH_SENTENCES or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        self._stream.append(self._waiting)
        self.sent += len(self._waiting)
        self._bar.update(len(self._waiting))
        self._waiting, self._bytes = [], 0

    def so_far(self, *, refused: bool = False) -> str:
        """`refused`: none of those that wait can be in the log."""
        if refused and not self.sent:
            return "nothing was sent"
        sure = f"the first {plural(self.sent, 'sentence')} are in {self.topic}"
        if not self._waiting:
            return sure
        return f"{sure}, of the next {len(self._waiting):,} {'none is' if refused else 'some may be'}"
