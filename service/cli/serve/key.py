"""`labelwatch key new|list|rotate|revoke`: the keys of the API. Only the hash of a key is stored."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.shared.options import JsonOption
from service.cli.shared.tables import render_table
from service.contracts.access.roles import CREATE_ADMIN_KEY, ROLE_DESCRIPTIONS, Role
from service.errors import InvalidInput, LabelwatchError
from service.settings import ApiKey, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.access.key_changes import KeyChange
    from service.access.key_records import StoredKeys
    from service.settings import ApiSettings, Settings

key_app = typer.Typer(no_args_is_help=True)

NameArgument = Annotated[
    str | None, typer.Argument(metavar="NAME", help="The same as --name with --print. Deprecated.", show_default=False)
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="Who the key is for: a person or a program. Logs and decisions show this name."
    ),
]
RequiredNameOption = Annotated[str, typer.Option("--name", metavar="NAME", help="The name of the key.")]
RoleOption = Annotated[
    Role | None,
    typer.Option(
        "--role",
        help="What the key may do. "
        + " ".join(f"`{role}` {text}." for role, text in ROLE_DESCRIPTIONS.items())
        + " Default: `read`.",
    ),
]
ScopeOption = Annotated[
    Literal["read", "write", "label-studio"] | None,
    typer.Option("--scope", help="The same as --role with --print; `write` is the role `admin`. Deprecated."),
]
DatasetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset", metavar="NAME", help="A dataset that the key is for; repeat it for several. Default: all datasets."
    ),
]
PrintOption = Annotated[
    bool,
    typer.Option("--print", help="Store nothing: print the variable LABELWATCH_API_KEYS that accepts the key."),
]


@key_app.command()
def new(
    name_argument: NameArgument = None,
    name: NameOption = None,
    role: RoleOption = None,
    scope: ScopeOption = None,
    dataset: DatasetOption = None,
    *,
    print_setting: PrintOption = False,
) -> None:
    """Create a key. It is valid at once; only its hash is stored, and the key itself is shown only once."""
    from service.access.audit_log import get_command_user
    from service.access.key_changes import check_key_fields, create_key

    who = name or name_argument
    if who is None:
        raise typer.BadParameter("say who the key is for", param_hint="--name")
    chosen: Role = role or ("admin" if scope == "write" else scope) or "read"
    datasets = tuple(dict.fromkeys(dataset or ()))
    settings = read_settings()
    try:
        check_key_fields(who, chosen, datasets)
    except InvalidInput as error:
        raise typer.BadParameter(error.problem, param_hint=_get_option(error)) from None
    if any(key.name == who for key in settings.api.known_keys):
        raise typer.BadParameter(
            f"{who} has a key already: choose another name, or remove that key from LABELWATCH_API_KEYS first",
            param_hint="--name",
        )
    if print_setting or name_argument is not None or scope is not None:
        _print_setting(settings.api, who, chosen, datasets)
        return
    by = get_command_user()
    rights = [(chosen, datasets), *((key.role, key.datasets) for key in settings.api.known_keys)]

    def build(keys: StoredKeys) -> KeyChange:
        rights.extend((key.role, key.datasets) for key in keys.active)
        return create_key(keys, name=who, role=chosen, datasets=datasets, by=by)

    key = _change(settings, build)
    typer.echo(key)
    typer.echo(
        f"This is the key of {who}, with the role {chosen}. It can't be shown again. {_explain_usage(settings.api, chosen, datasets)}",
        err=True,
    )
    if not settings.api.proxy_networks and not any(_is_admin(*each) for each in rights):
        typer.echo(
            f"No key has the role admin for all datasets, and from now on every request needs a key: {CREATE_ADMIN_KEY}",
            err=True,
        )


@key_app.command("list")
def show(*, as_json: JsonOption = False) -> None:
    """List the keys: of LABELWATCH_API_KEYS and of the log, also revoked ones."""
    settings = read_settings()
    rows: list[dict[str, object]] = [
        {"name": key.name, "role": key.role, "datasets": list(key.datasets) or None, "source": "settings"}
        for key in settings.api.known_keys
    ]
    keys = _read_keys(settings)
    for key in keys.keys:
        fields = key.model_dump(mode="json", exclude={"digest"}, exclude_none=True)
        rows.append({**fields, "datasets": list(key.datasets) or None, "source": "topic"})
    if as_json:
        typer.echo(json.dumps({"keys": rows, "unreadable": keys.unreadable}, ensure_ascii=False))
        return
    head = ["name", "role", "datasets", "source", "created", "by", "revoked"]
    typer.echo(render_table(head, [_render_row(row) for row in rows]))
    for name, reason in keys.unreadable.items():
        typer.echo(f"the stored key of {name!r} can't be read, so it is not valid: {reason}", err=True)


@key_app.command()
def rotate(name: RequiredNameOption) -> None:
    """Replace a key of the log by a new one with the same name, role and datasets. The old one stops working at once."""
    from service.access.audit_log import get_command_user
    from service.access.key_changes import rotate_key

    key = _change(read_settings(), lambda keys: rotate_key(keys, name, by=get_command_user()))
    typer.echo(key)
    typer.echo(f"This is the new key of {name}. It can't be shown again. The old one stops working now.", err=True)


@key_app.command()
def revoke(name: RequiredNameOption) -> None:
    """Make a key of the log invalid. Requests with it fail within a second."""
    from service.access.audit_log import get_command_user
    from service.access.key_changes import revoke_key

    _change(read_settings(), lambda keys: revoke_key(keys, name, by=get_command_user()))
    typer.echo(f"the key of {name} is revoked", err=True)


def _read_keys(settings: Settings) -> StoredKeys:
    from service.access.key_records import StoredKeys
    from service.log.read import read_topic
    from service.runtime.open_log import build_topics, open_log

    if settings.kafka is None and not settings.log.path.exists():
        return StoredKeys()
    with closing(open_log(settings)) as log:
        return StoredKeys(read_topic(log, build_topics(settings).keys))


def _change(settings: Settings, build: Callable[[StoredKeys], KeyChange]) -> str:
    """Writes a change, and returns the new key, if it makes one."""
    from service.access.audit_log import get_command_actor
    from service.access.key_changes import write_key_change
    from service.access.key_records import StoredKeys
    from service.log.read import read_topic
    from service.runtime.open_log import build_topics, open_log

    topics = build_topics(settings)
    with closing(open_log(settings)) as log:
        try:
            change = build(StoredKeys(read_topic(log, topics.keys)))
        except InvalidInput as error:
            raise typer.BadParameter(error.problem, param_hint=_get_option(error)) from None
        except LabelwatchError as error:
            raise typer.BadParameter(str(error), param_hint="--name") from None
        write_key_change(log, topics, change, get_command_actor())
    return change.text or ""


def _get_option(error: InvalidInput) -> str:
    return "--dataset" if error.field == "datasets" else "--name"


def _render_row(row: dict[str, object]) -> list[str]:
    datasets = row["datasets"]
    shown = ", ".join(map(str, datasets)) if isinstance(datasets, list) else "all"
    rest = (str(row.get(name) or "")[:19] for name in ("created_at", "created_by", "revoked_at"))
    return [str(row["name"]), str(row["role"]), shown, str(row["source"]), *rest]


def _print_setting(api: ApiSettings, name: str, role: Role, datasets: tuple[str, ...]) -> None:
    from service.access.key_text import generate_key, hash_key

    new_key = generate_key()
    known_keys = [key.format_setting() for key in api.known_keys]
    added = ApiKey(name, role, hash_key(new_key), datasets)
    setting = ",".join([*known_keys, added.format_setting()])
    typer.echo(new_key)
    typer.echo(f"LABELWATCH_API_KEYS={setting}")
    others = " (it keeps the keys that are set now)" if known_keys else ""
    typer.echo(
        f"The first line is the key: give it to {name}, it can't be shown again. The second is the variable to set for "
        f"`labelwatch api` or `labelwatch up`{others}. {_explain_usage(api, role, datasets)}",
        err=True,
    )
    if not api.proxy_networks and not any(_is_admin(key.role, key.datasets) for key in (*api.known_keys, added)):
        typer.echo(f"None of these keys has the role admin: if the log has none either, {CREATE_ADMIN_KEY}", err=True)


def _is_admin(role: Role, datasets: Sequence[str]) -> bool:
    """Whether a key may do everything, in all datasets. Without one, nobody can create keys over REST."""
    return role == "admin" and not datasets


def _explain_usage(api: ApiSettings, role: Role, datasets: tuple[str, ...]) -> str:
    places = {
        "label-studio": "In Label Studio, enter this address as the model's (Settings > Model > Connect Model)",
        "inception": "In INCEpTION, enter this address as the remote URL of an external recommender (Settings > Recommenders)",
    }
    if role not in places:
        return "Clients send `Authorization: Bearer KEY`."
    return (
        f"{places[role]}, with the host by which it reaches this service: "
        f"http://{api.host}:{api.port}/{role}/{datasets[0]}/KEY"
    )
