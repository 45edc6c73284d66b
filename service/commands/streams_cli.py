"""The stream commands, put together for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.commands.check import check
from service.commands.datasets import datasets_app
from service.commands.dead_letters import dead_letters_app
from service.commands.export import export
from service.commands.push import push_app
from service.commands.replay import replay
from service.commands.send import send
from service.commands.tail import tail
from service.commands.thresholds import thresholds_app
from service.commands.topics import topics_app
from service.commands.worker import worker_app

if TYPE_CHECKING:
    import typer


def register(app: typer.Typer) -> None:
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
