"""`labelwatch dead-letters list|replay`: messages that could not be assessed, and their way back."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.shared.tables import as_json, moment, shortened
from service.cli.shared.terminal import safe, say
from service.log.codec import ERRORS, header
from service.log.protocol import Output
from service.runtime.open_log import read_topic, reading, topics_of
from service.settings import read_settings
from service.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Headers, Record, Stream
    from service.log.topics import Topics

REASONS = frozenset(
    f"{ERRORS}.{name}"
    for name in ("topic", "partition", "offset", "stage", "exception.class.name", "exception.message")
)
# Says of a message which dead letter it was, so that no letter is sent twice: each record teaches.
SENT_AGAIN = "labelwatch-replay-of"
BATCH = 500

Stage = Literal["decode", "validate", "labels", "too_long", "inference"]
OfStage = Annotated[Stage | None, typer.Option("--stage", help="Only those that failed at this stage.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line, with everything there is.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be sent.")]
Waiting = Annotated[bool, typer.Option("--waiting", help="Only those that were not sent again.")]
Again = Annotated[bool, typer.Option("--again", help="Also those that were sent again before.")]

dead_letters_app = typer.Typer(help="Messages that could not be assessed, with the reason.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: the message as it came, and why it is here."""

    record: Record

    @property
    def stage(self) -> str:
        return self._reason("stage") or "unknown"

    @property
    def reason(self) -> str:
        return self._reason("exception.message") or "no reason was given"

    @property
    def origin(self) -> str:
        topic, partition, offset = (self._reason(name) or "?" for name in ("topic", "partition", "offset"))
        return f"{topic}-{partition}-{offset}"

    @property
    def place(self) -> str:
        return f"{self.record.topic}-{self.record.partition}-{self.record.offset}"

    def _reason(self, name: str) -> str | None:
        # The last one: a producer may have sent such headers himself.
        return header(self.record.headers[::-1], f"{ERRORS}.{name}")

    @property
    def original_headers(self) -> Headers:
        """Without the reason, which was put behind them."""
        kept = self.record.headers
        for _ in REASONS:
            if kept and kept[-1][0] in REASONS:
                kept = kept[:-1]
        return tuple((name, value) for name, value in kept if name != SENT_AGAIN)

    def lines(self, sent_again: bool = False) -> str:
        """For people."""
        mark = "[sent again] " if sent_again else ""
        said = f"{moment(self.record.timestamp_ms)}  {self.stage:<9}  {mark}{self.reason}"
        value = self.record.value
        shown = "no value" if value is None else shortened(value[:400].decode(errors="replace"), 100)
        key = "no key" if self.record.key is None else self.record.key[:200].decode(errors="replace")
        return f"{safe(said)}\n      {self.origin}  {safe(key)}  {safe(shown)}"

    def json(self, sent_again: bool = False) -> str:
        told: dict[str, Any] = {
            "topic": self.record.topic,
            "partition": self.record.partition,
            "offset": self.record.offset,
            "timestamp_ms": self.record.timestamp_ms,
            "stage": self.stage,
            "reason": self.reason,
            "origin": self.origin,
            "sent_again": sent_again,
            "key": as_json(self.record.key),
            "value": as_json(self.record.value),
            "headers": [[name, as_json(value)] for name, value in self.original_headers],
        }
        return json.dumps(told, ensure_ascii=False)


def letters(stream: Stream, topics: Topics, stage: str | None) -> Iterator[Letter]:
    for record in read_topic(stream, topics.dead_letters):
        letter = Letter(record)
        if stage is None or letter.stage == stage:
            yield letter


@dead_letters_app.command("list")
def list_letters(stage: OfStage = None, waiting: Waiting = False, as_json_lines: AsJson = False) -> None:
    """List the dead letters with their reasons, oldest first; those that `replay` has sent again are marked.

    A letter stays in its topic after it was sent again. Where it fails once more, there is a new one beside it.
    """
    settings = read_settings()
    topics = topics_of(settings)
    found: Counter[str] = Counter()
    with reading(settings, topics) as stream:
        before: set[str] | None = None
        again = 0
        for letter in letters(stream, topics, stage):
            before = _sent_before(stream, topics) if before is None else before
            sent = letter.place in before
            again += sent
            if sent and waiting:
                continue
            found[letter.stage] += 1
            typer.echo(letter.json(sent) if as_json_lines else letter.lines(sent))
    stages = ", ".join(f"{number:,} {name}" for name, number in found.most_common())
    told = f"{plural(found.total(), 'dead letter')}{': ' + stages if stages else ''}"
    if again:
        told += f"; {again:,} sent again before{' and left out' if waiting else ' (--waiting leaves them out)'}"
    say(told)


@dead_letters_app.command()
def replay(stage: OfStage = None, dry_run: DryRun = False, again: Again = False) -> None:
    """Send dead letters to the input topic again, byte for byte, as after the cause was mended. Each goes once."""
    settings = read_settings()
    topics = topics_of(settings)
    with reading(settings, topics) as stream:
        chosen = list(letters(stream, topics, stage))
        before = _sent_before(stream, topics) if chosen and not again else set()
        waiting = [letter for letter in chosen if letter.place not in before]
        if dry_run:
            for letter in waiting:
                typer.echo(letter.lines())
        else:
            for start in range(0, len(waiting), BATCH):
                stream.append([_message(letter, topics) for letter in waiting[start : start + BATCH]])
    earlier = len(chosen) - len(waiting)
    left_out = f"; {plural(earlier, 'was', 'were')} sent again before (--again sends all)" if earlier else ""
    verb = "would be sent" if dry_run else "sent"
    typer.echo(f"{plural(len(waiting), 'dead letter')} {verb} to {topics.sentences}{left_out}")


def _message(letter: Letter, topics: Topics) -> Output:
    mark = (SENT_AGAIN, letter.place.encode())
    return Output(topics.sentences, letter.record.key, letter.record.value, (*letter.original_headers, mark))


def _sent_before(stream: Stream, topics: Topics) -> set[str]:
    """The input itself says it: no second place that could disagree."""
    marks = (header(record.headers, SENT_AGAIN) for record in read_topic(stream, topics.sentences))
    return {mark for mark in marks if mark is not None}
