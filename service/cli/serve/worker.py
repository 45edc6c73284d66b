"""`labelwatch worker`: assesses sentences from the log and writes the results, exactly once."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.shared.terminal import print_stderr
from service.errors import SettingsError
from service.runtime.worker import run_worker
from service.settings import read_settings

OnceOption = Annotated[bool, typer.Option("--once", help="Stop when everything is read, instead of waiting for more.")]

worker_app = typer.Typer(invoke_without_command=True)


@worker_app.callback()
def worker(context: typer.Context, once: OnceOption = False) -> None:
    """Runs a worker, unless a subcommand is given."""
    if context.invoked_subcommand is None:
        print_stderr(run_worker(read_settings(), once=once))


@worker_app.command()
def leave(
    worker_id: Annotated[str, typer.Argument(metavar="ID", help="The LABELWATCH_WORKER_ID of the worker.")],
) -> None:
    """Remove a worker with a fixed identity from its consumer group at once, as for scaling down."""
    settings = read_settings()
    if settings.kafka is None:
        raise SettingsError(
            "LABELWATCH_KAFKA_BOOTSTRAP_SERVERS is not set: the embedded log has no consumer group to leave"
        )
    from service.log.kafka.admin import remove_group_member

    group = settings.worker.group
    if not remove_group_member(settings.kafka, group=group, worker_id=worker_id):
        raise SettingsError(f"no member of the group {group} (LABELWATCH_WORKER_GROUP) has the id {worker_id!r}")
    typer.echo(f"{worker_id} has left the group {group}: its partitions go to the other workers")
