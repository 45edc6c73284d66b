"""`labelwatch webhooks`: where notifications are sent to."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.access.audit_log import get_command_actor
from service.cli.shared.tables import render_table
from service.cli.shared.terminal import sanitize
from service.contracts.notification import EVENT_TYPES
from service.runtime.open_log import build_topics, open_existing_log, open_log
from service.runtime.webhooks import build_admin, check_key
from service.settings import read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.contracts.access.audit import AuditAction
    from service.log.protocol import Output
    from service.notifications.admin import EndpointReport, WebhookAdmin

webhooks_app = typer.Typer(help="Send notifications to other systems: list, add, test and remove endpoints.")

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the endpoint.")]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="Address that notifications are sent to, with https.")]
EventOption = Annotated[
    list[str] | None,
    typer.Option(metavar="EVENT", help=f"Send only this event: {', '.join(EVENT_TYPES)}. Repeatable. Default: all."),
]
DatasetOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Send only events of this dataset. Repeatable. Default: all.")
]
SlackOption = Annotated[bool, typer.Option("--slack", help="Send a body that Slack's incoming webhooks understand.")]


@contextmanager
def _open_admin(*, signs: bool = False, create_log: bool = False) -> Iterator[WebhookAdmin]:
    """`signs`: the key is needed, which a shell of an operator may not have."""
    settings = read_settings()
    topics = build_topics(settings)
    if signs:
        check_key(settings)
    with closing(open_log(settings)) if create_log else open_existing_log(settings) as log:
        yield build_admin(settings, log, topics, settings_owner="this shell")


def build_audit(action: AuditAction, endpoint_id: str) -> Output:
    return get_command_actor().build_message(build_topics(read_settings()).audit, action, subject=endpoint_id)


@webhooks_app.command("add")
def add(
    url: UrlArgument, *, event: EventOption = None, dataset: DatasetOption = None, slack: SlackOption = False
) -> None:
    """Add an endpoint, and print its id and the secret that deliveries are signed with."""
    fields: dict[str, Any] = {"url": url, "events": event, "datasets": dataset, "body": "slack" if slack else None}
    with _open_admin(signs=True, create_log=True) as admin:
        endpoint = admin.add({name: value for name, value in fields.items() if value}, build_audit)
    typer.echo(
        f"id      {endpoint.id}\nsecret  {endpoint.secret}\nThe secret is not shown again: give it to the receiver."
    )


@webhooks_app.command("list")
def list_endpoints() -> None:
    """List the endpoints, how their deliveries go, and how many notifications wait or failed."""
    with _open_admin() as admin:
        endpoints = admin.list_endpoints()
    if not endpoints:
        typer.echo("there is no endpoint: add one with `labelwatch webhooks add URL`")
        return
    head = ["id", "url", "events", "datasets", "waiting", "failed", "state"]
    rows = [
        [
            each.id,
            each.url,
            "all" if each.events == EVENT_TYPES else ", ".join(each.events),
            ", ".join(each.datasets) or "all",
            f"{each.pending:,}",
            f"{each.failed:,}",
            describe_status(each),
        ]
        for each in endpoints
    ]
    for line in render_table(head, rows, right_aligned=(4, 5)).splitlines():
        typer.echo(sanitize(line))


def describe_status(endpoint: EndpointReport) -> str:
    status = endpoint.status
    if endpoint.paused:
        return "paused"
    if status.disabled_at is not None:
        return f"disabled since {status.disabled_at:%Y-%m-%d %H:%M} UTC: {status.last_error}"
    if status.failing_since is not None:
        return f"fails since {status.failing_since:%Y-%m-%d %H:%M} UTC: {status.last_error}"
    return "ok"


@webhooks_app.command("remove")
def remove(endpoint_id: IdArgument) -> None:
    """Remove an endpoint. What waits for it is dropped."""
    with _open_admin() as admin:
        admin.remove(endpoint_id, build_audit)
    typer.echo(f"{endpoint_id} is removed")


@webhooks_app.command("pause")
def pause(endpoint_id: IdArgument) -> None:
    """Let notifications wait, for example while the receiver is down. At most 1,000 do."""
    with _open_admin() as admin:
        admin.pause(endpoint_id, build_audit, paused=True)
    typer.echo(f"{endpoint_id} is paused: `labelwatch webhooks resume {endpoint_id}` sends what waits")


@webhooks_app.command("resume")
def resume(endpoint_id: IdArgument) -> None:
    """Send what waits for a paused endpoint, and what comes."""
    with _open_admin() as admin:
        admin.pause(endpoint_id, build_audit, paused=False)
    typer.echo(f"{endpoint_id} is resumed")


@webhooks_app.command("test")
def test(endpoint_id: IdArgument) -> None:
    """Send a test at once. Exit code 1 if the receiver does not accept it."""
    with _open_admin(signs=True) as admin:
        result = admin.test(endpoint_id, by="labelwatch webhooks test")
    typer.echo(
        sanitize(f"delivered: answered {result.status}" if result.delivered else f"not delivered: {result.problem}")
    )
    raise typer.Exit(0 if result.delivered else 1)


@webhooks_app.command("failed")
def failed(endpoint_id: IdArgument) -> None:
    """Print the notifications that could not be delivered, one JSON object per line, the last first."""
    with _open_admin() as admin:
        notifications = admin.list_failed(endpoint_id)
    for notification in notifications:
        typer.echo(notification.model_dump_json(exclude_none=True))
    if not notifications:
        typer.echo(f"no notification to {endpoint_id} has failed", err=True)


@webhooks_app.command("retry")
def retry(endpoint_id: IdArgument) -> None:
    """Enable a disabled endpoint, and send everything again that failed or waits."""
    with _open_admin() as admin:
        retried = admin.retry(endpoint_id, build_audit)
    typer.echo(f"{pluralize(retried, 'notification')} {'is' if retried == 1 else 'are'} sent again")
