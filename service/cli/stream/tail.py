"""`labelwatch tail`: the newest of a topic, and what comes after it."""

from __future__ import annotations

import heapq
import time
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from service.cli.shared.tables import format_timestamp
from service.cli.shared.terminal import print_stderr, render_sentence, sanitize
from service.cli.stream.dead_letters import DeadLetter
from service.contracts import Assessment
from service.log.read import POLL_INTERVAL_S
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from service.log.protocol import Follower, Record
    from service.log.topics import Topics

DEFAULT_LAST = 10


class TailTopic(StrEnum):
    """What can be looked at."""

    REVIEW = "review"
    DEAD_LETTERS = "dead-letters"
    SCORES = "scores"


TopicArgument = Annotated[TailTopic, typer.Argument(help="What to look at.", show_default=False)]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what comes, until Ctrl-C.")]
LastOption = Annotated[int, typer.Option("--last", "-n", min=0, help="So many of those that are there.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def tail(
    topic: TopicArgument, *, follow: FollowOption = False, last: LastOption = DEFAULT_LAST, as_json: JsonOption = False
) -> None:
    """Show the newest assessments or dead letters: doubtful words with what was given and suggested. Low is bad."""
    settings = read_settings()
    topics = build_topics(settings)
    shown = _choose_renderer(topic, as_json)
    if follow and settings.kafka is None and not _wait_for_log(settings.log.path.absolute()):
        return
    with (
        open_existing_log(settings) as stream,
        closing(stream.follow(_get_topic_name(topic, topics))) as follower,
    ):
        found = _read_newest(follower, last)
        _print_records(found, shown)
        if not found and last and not follow:
            print_stderr(
                f"nothing in {_get_topic_name(topic, topics)} yet{_explain_empty_topic(topic, settings.worker.publish_scores)}"
            )
        try:
            while follow:
                news = follower.poll()
                _print_records(news, shown)
                if not news:
                    time.sleep(POLL_INTERVAL_S)
        except KeyboardInterrupt:
            return


def _wait_for_log(log: Path) -> bool:
    """For a log that is not there yet; False where somebody has had enough of it."""
    if log.exists():
        return True
    print_stderr(f"there is no log at {log} yet: waiting for it")
    try:
        while not log.exists():
            time.sleep(POLL_INTERVAL_S)
    except KeyboardInterrupt:
        return False
    return True


def _explain_empty_topic(topic: TailTopic, published: bool) -> str:
    if topic is TailTopic.SCORES and not published:
        return ": it is only written with LABELWATCH_WORKER_PUBLISH_SCORES=true"
    return ""


def _get_topic_name(topic: TailTopic, topics: Topics) -> str:
    names = {
        TailTopic.REVIEW: topics.review,
        TailTopic.DEAD_LETTERS: topics.dead_letters,
        TailTopic.SCORES: topics.scores,
    }
    return names[topic]


def _read_newest(follower: Follower, limit: int) -> list[Record]:
    """By time, as the partitions of a topic come one after the other."""
    kept: list[Record] = []
    while True:
        records = follower.poll()
        kept = heapq.nlargest(limit, [*kept, *records], key=_get_sort_key)
        if follower.caught_up:
            return kept[::-1]
        if not records:
            time.sleep(POLL_INTERVAL_S)


def _get_sort_key(record: Record) -> tuple[int, int, int]:
    return record.timestamp_ms, record.partition, record.offset


def _print_records(records: Iterable[Record], render: Callable[[Record], str]) -> None:
    for record in records:
        typer.echo(render(record))


def _choose_renderer(topic: TailTopic, as_json: bool) -> Callable[[Record], str]:
    if topic is TailTopic.DEAD_LETTERS:
        return lambda record: DeadLetter(record).to_json() if as_json else DeadLetter(record).to_text()
    return _render_raw if as_json else _render_assessment


def _render_raw(record: Record) -> str:
    """As it was written. Our own writers use one line."""
    return "null" if record.value is None else record.value.decode(errors="replace").replace("\n", " ")


def _render_assessment(record: Record) -> str:
    key = (record.key or b"").decode(errors="replace")
    if record.value is None:
        return f"{format_timestamp(record.timestamp_ms)}  removed   {sanitize(key)}"
    try:
        said = Assessment.model_validate_json(record.value)
    except ValidationError:
        return f"{format_timestamp(record.timestamp_ms)}  not an assessment of this version: {sanitize(key)}"
    numbers = [
        f"{name} {value:.4g}"
        for name, value in (("score", said.score), ("priority", said.priority))
        if value is not None
    ]
    who = [f"by {said.annotator}"] if said.annotator else []
    first = "  ".join([format_timestamp(record.timestamp_ms), f"{said.reason:<8}", key, *numbers, *who])
    # The second line of two: the words, the doubtful ones marked.
    _, _, words = render_sentence(said, 1).partition("\n")
    return f"{sanitize(first)}\n{words}" if said.tokens else sanitize(first)
