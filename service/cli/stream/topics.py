"""`labelwatch topics create|describe`: creates the topics on Kafka, and describes those of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from service.cli.shared.tables import render_table
from service.log.sqlite.admin import describe_log_file
from service.runtime.open_log import build_topics, create_topics, open_existing_log
from service.settings import read_settings
from service.stream.state.reader import read_state

if TYPE_CHECKING:
    from service.log.topics import Topics
    from service.settings import Settings
    from service.settings.kafka import KafkaSettings

topics_app = typer.Typer(no_args_is_help=True)


@topics_app.command()
def create() -> None:
    """Create the missing topics on Kafka, as set by LABELWATCH_TOPICS_*. Existing topics keep their settings."""
    settings = read_settings()
    if settings.kafka is None:
        typer.echo(f"nothing to create: the embedded log ({settings.log.path}) creates its topics on the first write")
        return
    created = create_topics(settings, build_topics(settings))
    for name in created:
        typer.echo(f"created {name}")
    if not created:
        typer.echo("nothing to create: all topics exist")


@topics_app.command()
def describe() -> None:
    """Describe each topic: its records, or on Kafka its settings and problems. Exit code 1 if there are problems."""
    settings = read_settings()
    topics = build_topics(settings)
    if settings.kafka is None:
        _describe_embedded_log(settings, topics)
    elif not _describe_kafka(settings.kafka, topics):
        raise typer.Exit(1)


def _describe_embedded_log(settings: Settings, topics: Topics) -> None:
    with open_existing_log(settings) as log:
        reports = describe_log_file(settings.log.path, topics)
        positions = read_state(log, topics).positions
    rows = [
        [report.name, f"{report.records:,}", f"{report.first_offset}", f"{report.next_offset}", f"{report.bytes:,}"]
        for report in reports
    ]
    typer.echo(
        render_table(["topic", "records", "first offset", "next offset", "bytes"], rows, right_aligned=(1, 2, 3, 4))
    )
    end = next(report.next_offset for report in reports if report.name == topics.sentences)
    position = positions.get(0, 0)
    typer.echo(
        f"the worker continues at offset {position} of {topics.sentences}, {max(0, end - position):,} behind the end"
    )


def _describe_kafka(kafka: KafkaSettings, topics: Topics) -> bool:
    from service.log.kafka.admin import describe_topics

    reports = describe_topics(kafka, topics)
    rows = [
        [
            report.name,
            str(report.partitions),
            str(report.replication),
            str(report.in_sync),
            report.configs.get("min.insync.replicas", ""),
            report.configs.get("cleanup.policy", ""),
            report.configs.get("max.message.bytes", ""),
        ]
        for report in reports
    ]
    head = ["topic", "partitions", "replicas", "in sync", "min in sync", "cleanup", "max bytes"]
    typer.echo(render_table(head, rows, right_aligned=(1, 2, 3, 4, 6)))
    problems = [f"{report.name}: {problem}" for report in reports for problem in report.problems]
    for line in problems:
        typer.echo(line)
    return not problems
