"""`labelwatch key new`: creates a key for the API. Only its hash goes into the settings."""

from __future__ import annotations

from typing import Annotated

import typer

from service.settings import KeyScope, read_settings

key_app = typer.Typer(no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Who the key is for. Logs show this name.")]
ScopeOption = Annotated[
    KeyScope, typer.Option("--scope", help="`read` may read everything, `write` may also change it.")
]


@key_app.command()
def new(name: NameArgument, scope: ScopeOption = "read") -> None:
    """Create a key, and the setting that accepts it. The key itself is stored nowhere and shown only once."""
    from service.api.http.auth import generate_key, hash_key

    api = read_settings().api
    if any(key.name == name for key in api.known_keys):
        raise typer.BadParameter(
            f"{name} has a key already: choose another name, or remove that key from LABELWATCH_API_KEYS first",
            param_hint="NAME",
        )
    new_key = generate_key()
    known_keys = [":".join(key) for key in api.known_keys]
    setting = ",".join([*known_keys, f"{name}:{scope}:{hash_key(new_key)}"])
    try:
        type(api).model_validate({"keys": setting})
    except ValueError as error:
        raise typer.BadParameter(
            "use at most 64 letters, digits, dots, dashes and underscores", param_hint="NAME"
        ) from error
    typer.echo(new_key)
    typer.echo(f"LABELWATCH_API_KEYS={setting}")
    others = " (it keeps the keys that are set now)" if known_keys else ""
    typer.echo(
        f"The first line is the key: give it to {name}, it can't be shown again. The second is the variable to set for "
        f"`labelwatch api` or `labelwatch up`{others}. Clients send `Authorization: Bearer KEY`.",
        err=True,
    )
