"""Options that several commands share. An alias is the type of a parameter; the command sets the default."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
DatasetFilterOption = Annotated[str | None, typer.Option("--dataset", metavar="NAME", help="Only this dataset.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Change nothing, only print what would be sent.")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Keep running for new records, until Ctrl-C.")]
ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show a progress bar. Default: if stderr is a terminal.",
    ),
]
