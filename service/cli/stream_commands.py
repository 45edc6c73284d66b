"""The stream commands, put together for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.cli.datasets.datasets import datasets_app
from service.cli.datasets.thresholds import thresholds_app
from service.cli.serve.check import check
from service.cli.serve.worker import worker_app
from service.cli.stream.dead_letters import dead_letters_app
from service.cli.stream.export import export
from service.cli.stream.replay import replay
from service.cli.stream.send import send
from service.cli.stream.tail import tail
from service.cli.stream.topics import topics_app
from service.integrations.label_studio.push import push_app

if TYPE_CHECKING:
    import typer


def register_stream_commands(app: typer.Typer) -> None:
    app.add_typer(worker_app, name="worker")
    app.command()(send)
    app.command()(tail)
    app.command()(export)
    app.add_typer(dead_letters_app, name="dead-letters")
    app.add_typer(push_app, name="push")
    app.add_typer(datasets_app, name="datasets")
    app.add_typer(thresholds_app, name="thresholds")
    app.command()(replay)
    app.add_typer(topics_app, name="topics")
    app.command()(check)
