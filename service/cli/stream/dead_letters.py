"""`labelwatch dead-letters list|replay`: lists messages that could not be assessed, and sends them again."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.cli.shared.options import DryRunOption, JsonLinesOption
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
# Names the dead letter that a message was, so that no letter is sent twice and learned from twice.
REPLAY_HEADER = "labelwatch-replay-of"
REPLAY_BATCH_SIZE = 500

Stage = Literal["decode", "validate", "labels", "too_long", "inference"]
StageOption = Annotated[Stage | None, typer.Option("--stage", help="Only dead letters of this stage.")]
WaitingOption = Annotated[bool, typer.Option("--waiting", help="Only dead letters that were not sent again.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Also dead letters that were sent again before.")]

dead_letters_app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: the original message and the reason."""

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
        # The last one: the producer may have sent headers with the same names.
        return get_header(self.record.headers[::-1], f"{ERROR_HEADER_PREFIX}.{name}")

    @property
    def original_headers(self) -> Headers:
        """The headers without those of the reason, which were appended."""
        headers = self.record.headers
        for _ in REASON_HEADERS:
            if headers and headers[-1][0] in REASON_HEADERS:
                headers = headers[:-1]
        return tuple((name, value) for name, value in headers if name != REPLAY_HEADER)

    def to_text(self, sent_again: bool = False) -> str:
        mark = "[sent again] " if sent_again else ""
        first_line = f"{format_timestamp(self.record.timestamp_ms)}  {self.stage:<9}  {mark}{self.reason}"
        value = self.record.value
        preview = "no value" if value is None else truncate(value[:400].decode(errors="replace"), 100)
        key = "no key" if self.record.key is None else self.record.key[:200].decode(errors="replace")
        return f"{sanitize(first_line)}\n      {self.origin}  {sanitize(key)}  {sanitize(preview)}"

    def to_json(self, sent_again: bool = False) -> str:
        fields: dict[str, Any] = {
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
        return json.dumps(fields, ensure_ascii=False)


def read_dead_letters(log: Log, topics: Topics, stage: str | None) -> Iterator[DeadLetter]:
    for record in read_topic(log, topics.dead_letters):
        letter = DeadLetter(record)
        if stage is None or letter.stage == stage:
            yield letter


@dead_letters_app.command("list")
def list_dead_letters(
    stage: StageOption = None, waiting: WaitingOption = False, as_json_lines: JsonLinesOption = False
) -> None:
    """List the dead letters with their reasons, oldest first. Those that `replay` has sent again are marked.

    A dead letter stays in its topic after it was sent again. If it fails again, a new dead letter follows.
    """
    settings = read_settings()
    topics = build_topics(settings)
    stage_counts: Counter[str] = Counter()
    with open_existing_log(settings) as log:
        replayed: set[str] | None = None
        sent_again = 0
        for letter in read_dead_letters(log, topics, stage):
            replayed = _read_replayed_positions(log, topics) if replayed is None else replayed
            is_sent = letter.position in replayed
            sent_again += is_sent
            if is_sent and waiting:
                continue
            stage_counts[letter.stage] += 1
            typer.echo(letter.to_json(is_sent) if as_json_lines else letter.to_text(is_sent))
    stages = ", ".join(f"{number:,} {name}" for name, number in stage_counts.most_common())
    summary = f"{pluralize(stage_counts.total(), 'dead letter')}{': ' + stages if stages else ''}"
    if sent_again:
        summary += f"; {sent_again:,} sent again before{' and left out' if waiting else ' (--waiting leaves them out)'}"
    print_stderr(summary)


@dead_letters_app.command()
def replay(stage: StageOption = None, dry_run: DryRunOption = False, again: AgainOption = False) -> None:
    """Send dead letters to the input topic again, byte for byte, once their cause is fixed. Each is sent once."""
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as log:
        letters = list(read_dead_letters(log, topics, stage))
        replayed = _read_replayed_positions(log, topics) if letters and not again else set()
        waiting = [letter for letter in letters if letter.position not in replayed]
        if dry_run:
            for letter in waiting:
                typer.echo(letter.to_text())
        else:
            for start in range(0, len(waiting), REPLAY_BATCH_SIZE):
                log.append(
                    [_build_replay_message(letter, topics) for letter in waiting[start : start + REPLAY_BATCH_SIZE]]
                )
    skipped = len(letters) - len(waiting)
    left_out = f"; {pluralize(skipped, 'was', 'were')} sent again before (--again sends all)" if skipped else ""
    verb = "would be sent" if dry_run else "sent"
    typer.echo(f"{pluralize(len(waiting), 'dead letter')} {verb} to {topics.sentences}{left_out}")


def _build_replay_message(letter: DeadLetter, topics: Topics) -> Output:
    mark = (REPLAY_HEADER, letter.position.encode())
    return Output(topics.sentences, letter.record.key, letter.record.value, (*letter.original_headers, mark))


def _read_replayed_positions(log: Log, topics: Topics) -> set[str]:
    """The dead letters that are in the input topic again. The input itself holds this, so nothing can disagree with it."""
    marks = (get_header(record.headers, REPLAY_HEADER) for record in read_topic(log, topics.sentences))
    return {mark for mark in marks if mark is not None}
