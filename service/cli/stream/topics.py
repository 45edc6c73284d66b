"""`labelwatch topics create|describe`: the topics as the log has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from service.cli.shared.tables import render_table
from service.log.sqlite.admin import describe_log_file as describe_file
from service.runtime.open_log import build_topics, open_existing_log
from service.runtime.read_state import read_state
from service.settings import read_settings

if TYPE_CHECKING:
    from service.log.topics import Topics
    from service.settings import Settings
    from service.settings.kafka import KafkaSettings

topics_app = typer.Typer(help="Make and look at the topics.", no_args_is_help=True)


@topics_app.command()
def create() -> None:
    """Make the topics that are missing, as LABELWATCH_TOPICS_* say; those that are there stay as they are."""
    settings = read_settings()
    if settings.kafka is None:
        typer.echo(f"nothing to create: the embedded log ({settings.log.path}) makes its topics as they are written to")
        return
    from service.log.kafka.admin import create_topics

    wanted = settings.topics
    made = create_topics(
        settings.kafka,
        build_topics(settings),
        partitions=wanted.partitions,
        replication=wanted.replication,
        min_isr=wanted.min_isr,
    )
    for name in made:
        typer.echo(f"made {name}")
    if not made:
        typer.echo("nothing to create: all topics are there")


@topics_app.command()
def describe() -> None:
    """Show each topic: what it holds, or on Kafka how it is kept and what is wrong with it."""
    settings = read_settings()
    topics = build_topics(settings)
    if settings.kafka is None:
        _describe_embedded_log(settings, topics)
    elif not _describe_kafka(settings.kafka, topics):
        raise typer.Exit(1)


def _describe_embedded_log(settings: Settings, topics: Topics) -> None:
    with open_existing_log(settings) as stream:
        found = describe_file(settings.log.path, topics)
        positions = read_state(stream, topics).positions
    rows = [
        [one.name, f"{one.records:,}", f"{one.first_offset}", f"{one.next_offset}", f"{one.bytes:,}"] for one in found
    ]
    typer.echo(
        render_table(["topic", "records", "first offset", "next offset", "bytes"], rows, right_aligned=(1, 2, 3, 4))
    )
    end = next(one.next_offset for one in found if one.name == topics.sentences)
    at = positions.get(0, 0)
    typer.echo(f"the worker goes on at offset {at} of {topics.sentences}, {max(0, end - at):,} behind the end")


def _describe_kafka(kafka: KafkaSettings, topics: Topics) -> bool:
    from service.log.kafka.admin import describe_topics

    reports = describe_topics(kafka, topics)
    rows = [
        [
            one.name,
            str(one.partitions),
            str(one.replication),
            str(one.in_sync),
            one.configs.get("min.insync.replicas", ""),
            one.configs.get("cleanup.policy", ""),
            one.configs.get("max.message.bytes", ""),
        ]
        for one in reports
    ]
    head = ["topic", "partitions", "copies", "in sync", "needed", "cleanup", "max bytes"]
    typer.echo(render_table(head, rows, right_aligned=(1, 2, 3, 4, 6)))
    wrong = [f"{one.name}: {problem}" for one in reports for problem in one.problems]
    for line in wrong:
        typer.echo(line)
    return not wrong
