"""`labelwatch tail`: prints the newest records of a topic, and with --follow those that arrive."""

from __future__ import annotations

import heapq
import time
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from service.cli.shared.options import FollowOption, JsonLinesOption
from service.cli.shared.tables import format_timestamp
from service.cli.shared.terminal import print_stderr, render_sentence, sanitize
from service.cli.stream.dead_letters import render_letter, render_letter_json
from service.contracts import Assessment
from service.log.dead_letters import DeadLetter
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
    """The topics that can be printed."""

    REVIEW = "review"
    DEAD_LETTERS = "dead-letters"
    SCORES = "scores"


TopicArgument = Annotated[TailTopic, typer.Argument(metavar="TOPIC", help="Topic to print.", show_default=False)]
LastOption = Annotated[int, typer.Option("--last", "-n", min=0, metavar="N", help="Number of records to start with.")]


def tail(
    topic: TopicArgument,
    *,
    follow: FollowOption = False,
    last: LastOption = DEFAULT_LAST,
    as_json: JsonLinesOption = False,
) -> None:
    """Print the newest assessments or dead letters, with the doubtful words marked.

    A doubtful word shows its given and its suggested label. Low scores and priorities are bad.
    """
    settings = read_settings()
    topics = build_topics(settings)
    render = _choose_renderer(topic, as_json)
    if follow and settings.kafka is None and not _wait_for_log(settings.log.path.absolute()):
        return
    with (
        open_existing_log(settings) as log,
        closing(log.follow(_get_topic_name(topic, topics))) as follower,
    ):
        newest = _read_newest(follower, last)
        _print_records(newest, render)
        if not newest and last and not follow:
            print_stderr(
                f"{_get_topic_name(topic, topics)} is empty{_explain_empty_topic(topic, settings.worker.publish_scores)}"
            )
        try:
            while follow:
                records = follower.poll()
                _print_records(records, render)
                if not records:
                    time.sleep(POLL_INTERVAL_S)
        except KeyboardInterrupt:
            return


def _wait_for_log(path: Path) -> bool:
    """Waits until the embedded log exists. False if Ctrl-C ends the wait."""
    if path.exists():
        return True
    print_stderr(f"there is no log at {path} yet: waiting for it")
    try:
        while not path.exists():
            time.sleep(POLL_INTERVAL_S)
    except KeyboardInterrupt:
        return False
    return True


def _explain_empty_topic(topic: TailTopic, published: bool) -> str:
    if topic is TailTopic.SCORES and not published:
        return ": workers write it only with LABELWATCH_WORKER_PUBLISH_SCORES=true"
    return ""


def _get_topic_name(topic: TailTopic, topics: Topics) -> str:
    names = {
        TailTopic.REVIEW: topics.review,
        TailTopic.DEAD_LETTERS: topics.dead_letters,
        TailTopic.SCORES: topics.scores,
    }
    return names[topic]


def _read_newest(follower: Follower, limit: int) -> list[Record]:
    """The newest records by time, across the partitions of the topic."""
    newest: list[Record] = []
    while True:
        records = follower.poll()
        newest = heapq.nlargest(limit, [*newest, *records], key=_get_sort_key)
        if follower.caught_up:
            return newest[::-1]
        if not records:
            time.sleep(POLL_INTERVAL_S)


def _get_sort_key(record: Record) -> tuple[int, int, int]:
    return record.timestamp_ms, record.partition, record.offset


def _print_records(records: Iterable[Record], render: Callable[[Record], str]) -> None:
    for record in records:
        typer.echo(render(record))


def _choose_renderer(topic: TailTopic, as_json: bool) -> Callable[[Record], str]:
    if topic is TailTopic.DEAD_LETTERS:
        render = render_letter_json if as_json else render_letter
        return lambda record: render(DeadLetter(record))
    return _render_raw if as_json else _render_assessment


def _render_raw(record: Record) -> str:
    """The value as it was written. labelwatch writes values without line breaks."""
    return "null" if record.value is None else record.value.decode(errors="replace").replace("\n", " ")


def _render_assessment(record: Record) -> str:
    key = (record.key or b"").decode(errors="replace")
    if record.value is None:
        return f"{format_timestamp(record.timestamp_ms)}  removed   {sanitize(key)}"
    try:
        assessment = Assessment.model_validate_json(record.value)
    except ValidationError:
        return f"{format_timestamp(record.timestamp_ms)}  not an assessment of this version: {sanitize(key)}"
    numbers = [
        f"{name} {value:.4g}"
        for name, value in (("score", assessment.score), ("priority", assessment.priority))
        if value is not None
    ]
    annotator = [f"by {assessment.annotator}"] if assessment.annotator else []
    first = "  ".join([format_timestamp(record.timestamp_ms), f"{assessment.reason:<8}", key, *numbers, *annotator])
    # The second line holds the words.
    _, _, words = render_sentence(assessment, 1).partition("\n")
    return f"{sanitize(first)}\n{words}" if assessment.tokens else sanitize(first)
