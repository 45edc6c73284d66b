"""`labelwatch key new`: a key for the API. Only its hash goes into the settings."""

from __future__ import annotations

from typing import Annotated

import typer

from service.settings import KeyScope, read_settings

key_app = typer.Typer(help="Keys for the REST API.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is; it stands in logs.")]
ScopeOption = Annotated[KeyScope, typer.Option("--scope", help="`write` may do everything, `read` changes nothing.")]


@key_app.command()
def new(name: NameArgument, scope: ScopeOption = "read") -> None:
    """Make a key, and the line that lets it in. The key itself is stored nowhere: it is shown this once."""
    from service.api.http.auth import generate_key, hash_key

    before = read_settings().api
    if any(one.name == name for one in before.known_keys):
        raise typer.BadParameter(
            f"{name} has a key already: choose another name, or take that one out of LABELWATCH_API_KEYS first",
            param_hint="NAME",
        )
    key = generate_key()
    known = [":".join(one) for one in before.known_keys]
    line = ",".join([*known, f"{name}:{scope}:{hash_key(key)}"])
    try:
        type(before).model_validate({"keys": line})
    except ValueError as error:
        raise typer.BadParameter("letters, digits, dot, dash and underscore, at most 64", param_hint="NAME") from error
    typer.echo(key)
    typer.echo(f"LABELWATCH_API_KEYS={line}")
    others = " (it keeps those that are set now)" if known else ""
    typer.echo(
        f"The first line is the key: hand it to {name}, it can't be shown again. The second is the variable to set for "
        f"`labelwatch api` or `labelwatch up`{others}; callers then send `Authorization: Bearer KEY`.",
        err=True,
    )
