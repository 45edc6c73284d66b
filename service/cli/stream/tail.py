"""`labelwatch tail`: the newest of a topic, and what comes after it."""

from __future__ import annotations

import heapq
import time
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from service.cli.shared.tables import moment
from service.cli.shared.terminal import safe, say, sentence_lines
from service.cli.stream.dead_letters import Letter
from service.contracts import Assessment
from service.runtime.open_log import PAUSE, reading, topics_of
from service.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from service.log.protocol import Follower, Record
    from service.log.topics import Topics

LAST = 10


class Which(StrEnum):
    """What can be looked at."""

    REVIEW = "review"
    DEAD_LETTERS = "dead-letters"
    SCORES = "scores"


Topic = Annotated[Which, typer.Argument(help="What to look at.", show_default=False)]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on showing what comes, until Ctrl-C.")]
Last = Annotated[int, typer.Option("--last", "-n", min=0, help="So many of those that are there.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


def tail(topic: Topic, *, follow: Follow = False, last: Last = LAST, as_json: AsJson = False) -> None:
    """Show the newest assessments or dead letters: doubtful words with what was given and suggested. Low is bad."""
    settings = read_settings()
    topics = topics_of(settings)
    shown = _shown(topic, as_json)
    if follow and settings.kafka is None and not _waited(settings.log.path.absolute()):
        return
    with reading(settings, topics) as stream, closing(stream.follow(_name(topic, topics))) as follower:
        found = _newest(follower, last)
        _show(found, shown)
        if not found and last and not follow:
            say(f"nothing in {_name(topic, topics)} yet{_hint(topic, settings.worker.publish_scores)}")
        try:
            while follow:
                news = follower.poll()
                _show(news, shown)
                if not news:
                    time.sleep(PAUSE)
        except KeyboardInterrupt:
            return


def _waited(log: Path) -> bool:
    """For a log that is not there yet; False where somebody has had enough of it."""
    if log.exists():
        return True
    say(f"there is no log at {log} yet: waiting for it")
    try:
        while not log.exists():
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        return False
    return True


def _hint(topic: Which, published: bool) -> str:
    if topic is Which.SCORES and not published:
        return ": it is only written with LABELWATCH_WORKER_PUBLISH_SCORES=true"
    return ""


def _name(topic: Which, topics: Topics) -> str:
    names = {Which.REVIEW: topics.review, Which.DEAD_LETTERS: topics.dead_letters, Which.SCORES: topics.scores}
    return names[topic]


def _newest(follower: Follower, most: int) -> list[Record]:
    """By time, as the partitions of a topic come one after the other."""
    kept: list[Record] = []
    while True:
        records = follower.poll()
        kept = heapq.nlargest(most, [*kept, *records], key=_age)
        if follower.caught_up:
            return kept[::-1]
        if not records:
            time.sleep(PAUSE)


def _age(record: Record) -> tuple[int, int, int]:
    return record.timestamp_ms, record.partition, record.offset


def _show(records: Iterable[Record], shown: Callable[[Record], str]) -> None:
    for record in records:
        typer.echo(shown(record))


def _shown(topic: Which, as_json: bool) -> Callable[[Record], str]:
    if topic is Which.DEAD_LETTERS:
        return lambda record: Letter(record).json() if as_json else Letter(record).lines()
    return _raw if as_json else _assessment


def _raw(record: Record) -> str:
    """As it was written. Our own writers use one line."""
    return "null" if record.value is None else record.value.decode(errors="replace").replace("\n", " ")


def _assessment(record: Record) -> str:
    key = (record.key or b"").decode(errors="replace")
    if record.value is None:
        return f"{moment(record.timestamp_ms)}  removed   {safe(key)}"
    try:
        said = Assessment.model_validate_json(record.value)
    except ValidationError:
        return f"{moment(record.timestamp_ms)}  not an assessment of this version: {safe(key)}"
    numbers = [
        f"{name} {value:.4g}"
        for name, value in (("score", said.score), ("priority", said.priority))
        if value is not None
    ]
    who = [f"by {said.annotator}"] if said.annotator else []
    first = "  ".join([moment(record.timestamp_ms), f"{said.reason:<8}", key, *numbers, *who])
    # The second line of two: the words, the doubtful ones marked.
    _, _, words = sentence_lines(said, 1).partition("\n")
    return f"{safe(first)}\n{words}" if said.tokens else safe(first)
