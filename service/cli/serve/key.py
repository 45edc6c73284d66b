"""`labelwatch key new`: creates a key for the API. Only its hash goes into the settings."""

from __future__ import annotations

from typing import Annotated

import typer

from service.contracts.base import DATASET_NAME_RULE, is_dataset_name
from service.settings import ApiKey, KeyScope, read_settings

key_app = typer.Typer(no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Who the key is for. Logs show this name.")]
ScopeOption = Annotated[
    KeyScope,
    typer.Option(
        "--scope",
        help="`read` may read everything, `write` may also change it. `label-studio` is for the address of a model in "
        "Label Studio, and one dataset.",
    ),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", help="The dataset of a key with the scope `label-studio`.")
]


@key_app.command()
def new(name: NameArgument, scope: ScopeOption = "read", dataset: DatasetOption = None) -> None:
    """Create a key, and the setting that accepts it. The key itself is stored nowhere and shown only once."""
    from service.api.http.auth import generate_key, hash_key
    from service.api.http.path_keys import LABEL_STUDIO_PREFIX

    if (scope == "label-studio") != (dataset is not None):
        raise typer.BadParameter(
            "name the dataset of a key with the scope `label-studio`; other keys have none", param_hint="--dataset"
        )
    if dataset is not None and not is_dataset_name(dataset):
        raise typer.BadParameter(DATASET_NAME_RULE, param_hint="--dataset")
    api = read_settings().api
    if any(key.name == name for key in api.known_keys):
        raise typer.BadParameter(
            f"{name} has a key already: choose another name, or remove that key from LABELWATCH_API_KEYS first",
            param_hint="NAME",
        )
    new_key = generate_key()
    known_keys = [key.format_setting() for key in api.known_keys]
    setting = ",".join([*known_keys, ApiKey(name, scope, hash_key(new_key), dataset).format_setting()])
    try:
        type(api).model_validate({"keys": setting})
    except ValueError as error:
        raise typer.BadParameter(
            "use at most 64 letters, digits, dots, dashes and underscores", param_hint="NAME"
        ) from error
    typer.echo(new_key)
    typer.echo(f"LABELWATCH_API_KEYS={setting}")
    others = " (it keeps the keys that are set now)" if known_keys else ""
    usage = "Clients send `Authorization: Bearer KEY`."
    if dataset is not None:
        usage = (
            "In Label Studio, enter this address as the model's (Settings > Model > Connect Model), with the host by "
            f"which it reaches this service: http://{api.host}:{api.port}{LABEL_STUDIO_PREFIX}{dataset}/KEY"
        )
    typer.echo(
        f"The first line is the key: give it to {name}, it can't be shown again. The second is the variable to set for "
        f"`labelwatch api` or `labelwatch up`{others}. {usage}",
        err=True,
    )
