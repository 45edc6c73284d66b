"""`labelwatch dead-letters list|replay`: messages that could not be assessed, and their way back."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.shared.tables import bytes_to_json, format_timestamp, truncate
from service.cli.shared.terminal import print_stderr, sanitize
from service.log.codec import ERROR_HEADER_PREFIX, get_header
from service.log.protocol import Output
from service.log.read import read_topic
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.log.protocol import Headers, Log, Record
    from service.log.topics import Topics

REASON_HEADERS = frozenset(
    f"{ERROR_HEADER_PREFIX}.{name}"
    for name in ("topic", "partition", "offset", "stage", "exception.class.name", "exception.message")
)
# Says of a message which dead letter it was, so that no letter is sent twice: each record teaches.
REPLAY_HEADER = "labelwatch-replay-of"
REPLAY_BATCH_SIZE = 500

Stage = Literal["decode", "validate", "labels", "too_long", "inference"]
StageOption = Annotated[Stage | None, typer.Option("--stage", help="Only those that failed at this stage.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line, with everything there is.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be sent.")]
WaitingOption = Annotated[bool, typer.Option("--waiting", help="Only those that were not sent again.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Also those that were sent again before.")]

dead_letters_app = typer.Typer(help="Messages that could not be assessed, with the reason.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the message as it came, and why it is here."""

    record: Record

    @property
    def stage(self) -> str:
        return self._get_error_header("stage") or "unknown"

    @property
    def reason(self) -> str:
        return self._get_error_header("exception.message") or "no reason was given"

    @property
    def origin(self) -> str:
        topic, partition, offset = (self._get_error_header(name) or "?" for name in ("topic", "partition", "offset"))
        return f"{topic}-{partition}-{offset}"

    @property
    def position(self) -> str:
        return f"{self.record.topic}-{self.record.partition}-{self.record.offset}"

    def _get_error_header(self, name: str) -> str | None:
        # The last one: a producer may have sent such headers himself.
        return get_header(self.record.headers[::-1], f"{ERROR_HEADER_PREFIX}.{name}")

    @property
    def original_headers(self) -> Headers:
        """Without the reason, which was put behind them."""
        kept = self.record.headers
        for _ in REASON_HEADERS:
            if kept and kept[-1][0] in REASON_HEADERS:
                kept = kept[:-1]
        return tuple((name, value) for name, value in kept if name != REPLAY_HEADER)

    def to_text(self, sent_again: bool = False) -> str:
        """For people."""
        mark = "[sent again] " if sent_again else ""
        said = f"{format_timestamp(self.record.timestamp_ms)}  {self.stage:<9}  {mark}{self.reason}"
        value = self.record.value
        shown = "no value" if value is None else truncate(value[:400].decode(errors="replace"), 100)
        key = "no key" if self.record.key is None else self.record.key[:200].decode(errors="replace")
        return f"{sanitize(said)}\n      {self.origin}  {sanitize(key)}  {sanitize(shown)}"

    def to_json(self, sent_again: bool = False) -> str:
        told: dict[str, Any] = {
            "topic": self.record.topic,
            "partition": self.record.partition,
            "offset": self.record.offset,
            "timestamp_ms": self.record.timestamp_ms,
            "stage": self.stage,
            "reason": self.reason,
            "origin": self.origin,
            "sent_again": sent_again,
            "key": bytes_to_json(self.record.key),
            "value": bytes_to_json(self.record.value),
            "headers": [[name, bytes_to_json(value)] for name, value in self.original_headers],
        }
        return json.dumps(told, ensure_ascii=False)


def read_dead_letters(stream: Log, topics: Topics, stage: str | None) -> Iterator[DeadLetter]:
    for record in read_topic(stream, topics.dead_letters):
        letter = DeadLetter(record)
        if stage is None or letter.stage == stage:
            yield letter


@dead_letters_app.command("list")
def list_dead_letters(
    stage: StageOption = None, waiting: WaitingOption = False, as_json_lines: JsonOption = False
) -> None:
    """List the dead letters with their reasons, oldest first; those that `replay` has sent again are marked.

    A letter stays in its topic after it was sent again. Where it fails once more, there is a new one beside it.
    """
    settings = read_settings()
    topics = build_topics(settings)
    found: Counter[str] = Counter()
    with open_existing_log(settings) as stream:
        before: set[str] | None = None
        again = 0
        for letter in read_dead_letters(stream, topics, stage):
            before = _read_replayed_positions(stream, topics) if before is None else before
            sent = letter.position in before
            again += sent
            if sent and waiting:
                continue
            found[letter.stage] += 1
            typer.echo(letter.to_json(sent) if as_json_lines else letter.to_text(sent))
    stages = ", ".join(f"{number:,} {name}" for name, number in found.most_common())
    told = f"{pluralize(found.total(), 'dead letter')}{': ' + stages if stages else ''}"
    if again:
        told += f"; {again:,} sent again before{' and left out' if waiting else ' (--waiting leaves them out)'}"
    print_stderr(told)


@dead_letters_app.command()
def replay(stage: StageOption = None, dry_run: DryRunOption = False, again: AgainOption = False) -> None:
    """Send dead letters to the input topic again, byte for byte, as after the cause was mended. Each goes once."""
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as stream:
        chosen = list(read_dead_letters(stream, topics, stage))
        before = _read_replayed_positions(stream, topics) if chosen and not again else set()
        waiting = [letter for letter in chosen if letter.position not in before]
        if dry_run:
            for letter in waiting:
                typer.echo(letter.to_text())
        else:
            for start in range(0, len(waiting), REPLAY_BATCH_SIZE):
                stream.append(
                    [_build_replay_message(letter, topics) for letter in waiting[start : start + REPLAY_BATCH_SIZE]]
                )
    earlier = len(chosen) - len(waiting)
    left_out = f"; {pluralize(earlier, 'was', 'were')} sent again before (--again sends all)" if earlier else ""
    verb = "would be sent" if dry_run else "sent"
    typer.echo(f"{pluralize(len(waiting), 'dead letter')} {verb} to {topics.sentences}{left_out}")


def _build_replay_message(letter: DeadLetter, topics: Topics) -> Output:
    mark = (REPLAY_HEADER, letter.position.encode())
    return Output(topics.sentences, letter.record.key, letter.record.value, (*letter.original_headers, mark))


def _read_replayed_positions(stream: Log, topics: Topics) -> set[str]:
    """The input itself says it: no second place that could disagree."""
    marks = (get_header(record.headers, REPLAY_HEADER) for record in read_topic(stream, topics.sentences))
    return {mark for mark in marks if mark is not None}
