"""`labelwatch dead-letters list|replay`: lists messages that could not be assessed, and sends them again."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from service.access.audit_log import get_command_actor
from service.cli.shared.options import DryRunOption, JsonLinesOption
from service.cli.shared.tables import bytes_to_json, format_timestamp, truncate
from service.cli.shared.terminal import print_stderr, sanitize
from service.log.dead_letters import read_dead_letters, read_replayed_positions
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from service.log.dead_letters import DeadLetter

REPLAY_BATCH_SIZE = 500

Stage = Literal["decode", "validate", "labels", "too_long", "inference"]
StageOption = Annotated[Stage | None, typer.Option("--stage", help="Only dead letters of this stage.")]
WaitingOption = Annotated[bool, typer.Option("--waiting", help="Only dead letters that were not sent again.")]
AgainOption = Annotated[bool, typer.Option("--again", help="Also dead letters that were sent again before.")]

dead_letters_app = typer.Typer(no_args_is_help=True)


def render_letter(letter: DeadLetter, sent_again: bool = False) -> str:
    record, mark = letter.record, "[sent again] " if sent_again else ""
    first_line = f"{format_timestamp(record.timestamp_ms)}  {letter.stage:<9}  {mark}{letter.reason}"
    preview = "no value" if record.value is None else truncate(record.value[:400].decode(errors="replace"), 100)
    key = "no key" if record.key is None else record.key[:200].decode(errors="replace")
    return f"{sanitize(first_line)}\n      {letter.origin}  {sanitize(key)}  {sanitize(preview)}"


def render_letter_json(letter: DeadLetter, sent_again: bool = False) -> str:
    record = letter.record
    fields: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "stage": letter.stage,
        "reason": letter.reason,
        "origin": letter.origin,
        "sent_again": sent_again,
        "key": bytes_to_json(record.key),
        "value": bytes_to_json(record.value),
        "headers": [[name, bytes_to_json(value)] for name, value in letter.original_headers],
    }
    return json.dumps(fields, ensure_ascii=False)


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
            replayed = read_replayed_positions(log, topics) if replayed is None else replayed
            is_sent = letter.position in replayed
            sent_again += is_sent
            if is_sent and waiting:
                continue
            stage_counts[letter.stage] += 1
            typer.echo(render_letter_json(letter, is_sent) if as_json_lines else render_letter(letter, is_sent))
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
        replayed = read_replayed_positions(log, topics) if letters and not again else set()
        waiting = [letter for letter in letters if letter.position not in replayed]
        if dry_run:
            for letter in waiting:
                typer.echo(render_letter(letter))
        else:
            for start in range(0, len(waiting), REPLAY_BATCH_SIZE):
                batch = waiting[start : start + REPLAY_BATCH_SIZE]
                audit = get_command_actor().build_message(topics.audit, "dead-letters", letters=len(batch))
                log.append([*(letter.build_replay_message(topics.sentences) for letter in batch), audit])
    skipped = len(letters) - len(waiting)
    left_out = f"; {pluralize(skipped, 'was', 'were')} sent again before (--again sends all)" if skipped else ""
    verb = "would be sent" if dry_run else "sent"
    typer.echo(f"{pluralize(len(waiting), 'dead letter')} {verb} to {topics.sentences}{left_out}")
