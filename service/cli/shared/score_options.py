"""The options of `labelwatch score`, each as the type of its parameter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.shared.file_options import INPUT_PANEL as INPUT
from service.cli.shared.rejects import OnError
from service.formats.plain.assessments import OutputFormat
from service.inference.model.folder import Precision
from service.scoring.sentence import METHODS
from service.scoring.token import TOKEN_SCORES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

DEFAULT_TOP = 20
EXIT_CODE_FLAGGED = 3
OUTPUT_PANEL, JUDGING_PANEL, RUNNING_PANEL = "Output", "Judging", "Running"


def _build_name_check(names: Collection[str]) -> Callable[[str | None], str | None]:
    def check(name: str | None) -> str | None:
        if name is not None and name not in names:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}.")
        return name

    return check


OnErrorOption = Annotated[
    OnError,
    typer.Option(
        "--on-error",
        rich_help_panel=INPUT,
        help="At a sentence that can't be judged: stop, or skip it and list it beside the output, for out.jsonl in "
        "out.rejected.jsonl (on stderr where the output is no file).",
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", rich_help_panel=JUDGING_PANEL, help="Model folder; the default model where left out."),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        rich_help_panel=JUDGING_PANEL, help="The model's fast graph, or the one that is the same on every CPU."
    ),
]
SchemeOption = Annotated[
    Literal["iob1", "iob2", "biluo", "io"] | None,
    typer.Option(rich_help_panel=JUDGING_PANEL, help="Scheme of the labels; told by the labels where left out."),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW",
        rich_help_panel=JUDGING_PANEL,
        help="The model's name for a type or label of the files, such as PERSON=PER; may be given several times.",
    ),
]
UnmappedOption = Annotated[
    Literal["reject", "unscored"],
    typer.Option(
        rich_help_panel=JUDGING_PANEL,
        help="A label the model has no class for: reject its sentence, or leave the word unscored.",
    ),
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="NAME",
        callback=_build_name_check(METHODS),
        rich_help_panel=JUDGING_PANEL,
        help=f"Sentence score: {', '.join(METHODS)}. The order is by priority whatever the score.",
    ),
]
TokenScoreOption = Annotated[
    str,
    typer.Option(
        "--token-score",
        metavar="NAME",
        callback=_build_name_check(TOKEN_SCORES),
        rich_help_panel=JUDGING_PANEL,
        help=f"Word score: {', '.join(TOKEN_SCORES)}.",
    ),
]
StreamOption = Annotated[
    bool,
    typer.Option(
        "--stream",
        rich_help_panel=JUDGING_PANEL,
        help="Judge each sentence by those before it, as the service does. Without: by the whole input, in two passes.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        rich_help_panel=OUTPUT_PANEL,
        help=f"Write the assessments here, worst first; - is standard output. Without: the worst {DEFAULT_TOP} as text.",
    ),
]
OutputFormatOption = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output-format", rich_help_panel=OUTPUT_PANEL, help="CSV if the output is called .csv, else JSON Lines."
    ),
]
ReportOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", rich_help_panel=OUTPUT_PANEL, help="Write a report to look at: one HTML page."),
]
FlaggedOnlyOption = Annotated[
    bool,
    typer.Option("--flagged-only", rich_help_panel=OUTPUT_PANEL, help="Only sentences that hold a doubtful label."),
]
TopOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", rich_help_panel=OUTPUT_PANEL, help="Only the worst N.")
]
FailOnFlaggedOption = Annotated[
    bool,
    typer.Option(
        "--fail-on-flagged",
        rich_help_panel=OUTPUT_PANEL,
        help=f"Exit with {EXIT_CODE_FLAGGED} if anything was flagged.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=RUNNING_PANEL, help="Threads of the model; all cores where left out."),
]
ProgressOption = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress", rich_help_panel=RUNNING_PANEL, help="Progress bar; where stderr is a terminal."
    ),
]
