"""`labelwatch audit-log`: who changed what."""

from __future__ import annotations

from typing import Annotated

import typer

from service.access.audit_log import AuditFilter, read_entries
from service.cli.shared.options import JsonOption
from service.cli.shared.terminal import sanitize
from service.contracts.access.audit import AuditAction, AuditRecord
from service.log.read import read_topic
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings

ActorOption = Annotated[
    str | None, typer.Option("--actor", metavar="NAME", help="Only changes by this key, user or command's user.")
]
ActionOption = Annotated[
    AuditAction | None,
    typer.Option("--action", metavar="ACTION", help="Only changes of this kind, such as `settings`."),
]
DatasetOption = Annotated[str | None, typer.Option("--dataset", metavar="NAME", help="Only changes of this dataset.")]


def audit_log(
    actor: ActorOption = None,
    action: ActionOption = None,
    dataset: DatasetOption = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List who changed what: decisions, settings, replays and keys, oldest first."""
    settings = read_settings()
    selected = AuditFilter(actor, action, dataset)
    with open_existing_log(settings) as log:
        for entry in read_entries(read_topic(log, build_topics(settings).audit)):
            if selected.matches(entry.record):
                typer.echo(entry.record.model_dump_json() if as_json else sanitize(render_record(entry.record)))


def render_record(record: AuditRecord) -> str:
    about = "/".join(part for part in (record.dataset, record.subject) if part)
    details = " ".join(f"{name}={value}" for name, value in record.details.items() if value is not None)
    who = f"{record.actor or 'anybody'} ({record.actor_kind})"
    return f"{record.at:%Y-%m-%d %H:%M:%S} {who} {record.action} {about} {details}".rstrip()
