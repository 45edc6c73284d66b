"""The options of `labelwatch score`, each as the type of its parameter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from service.cli.shared.file_options import INPUT_PANEL
from service.cli.shared.model_options import MODEL_PANEL
from service.cli.shared.rejects import OnError
from service.formats.plain.assessments import OutputFormat
from service.inference.model.folder import Precision
from service.scoring.sentence import DEFAULT_METHOD, METHODS
from service.scoring.token import DEFAULT_TOKEN_SCORE, TOKEN_SCORES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

DEFAULT_TOP = 20
EXIT_CODE_FLAGGED = 3
OUTPUT_PANEL, JUDGING_PANEL = "Output", "Judging"


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
        rich_help_panel=INPUT_PANEL,
        help="If a sentence can't be judged: stop, or skip it and list it in a file beside the output "
        "(out.rejected.jsonl for out.jsonl; on stderr if the output is not a file).",
    ),
]
ProbsOption = Annotated[
    Path | None,
    typer.Option(
        "--probs",
        metavar="FILE.npz",
        rich_help_panel=MODEL_PANEL,
        help="Probabilities of the sentences, computed elsewhere: arrays probs, lengths and labels. No model runs.",
    ),
]
PrecisionOption = Annotated[
    Precision | None,
    typer.Option(
        "--precision",
        rich_help_panel=MODEL_PANEL,
        help="Graph of the model folder: `fast`, or `exact`, which gives the same answers on every CPU. Default: "
        "LABELWATCH_MODEL_PRECISION.",
    ),
]
SchemeOption = Annotated[
    Literal["iob1", "iob2", "biluo", "io"] | None,
    typer.Option(rich_help_panel=JUDGING_PANEL, help="Scheme of the labels. Default: detected from the labels."),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW",
        rich_help_panel=JUDGING_PANEL,
        help="Map a type or label of the files to the model's name for it, such as PERSON=PER. Repeatable.",
    ),
]
UnmappedOption = Annotated[
    Literal["reject", "unscored"] | None,
    typer.Option(
        rich_help_panel=JUDGING_PANEL,
        help="If the model has no class for a label: reject the sentence (the default), or leave the word unscored.",
    ),
]
DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        rich_help_panel=JUDGING_PANEL,
        help="Judge as the service judges this dataset: with the model, label map, label set, scheme, scores and policy in "
        "its settings. Other options override them.",
    ),
]
AllTypesOption = Annotated[
    bool,
    typer.Option(
        "--all-types",
        rich_help_panel=JUDGING_PANEL,
        help="Suggest every type of the model. Default: not those that no label of the files has.",
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="NAME",
        callback=_build_name_check(METHODS),
        rich_help_panel=JUDGING_PANEL,
        help=f"Sentence score: {', '.join(METHODS)}. Default: {DEFAULT_METHOD}. The output is always ordered by priority.",
    ),
]
TokenScoreOption = Annotated[
    str | None,
    typer.Option(
        "--token-score",
        metavar="NAME",
        callback=_build_name_check(TOKEN_SCORES),
        rich_help_panel=JUDGING_PANEL,
        help=f"Word score: {', '.join(TOKEN_SCORES)}. Default: {DEFAULT_TOKEN_SCORE}.",
    ),
]
StreamOption = Annotated[
    bool,
    typer.Option(
        "--stream",
        rich_help_panel=JUDGING_PANEL,
        help="Judge each sentence by those before it, as the service does. Default: by the whole input, in two passes.",
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        rich_help_panel=OUTPUT_PANEL,
        help=f"Write the assessments to this file, worst first; - is standard output. Default: print the worst "
        f"{DEFAULT_TOP} as text.",
    ),
]
OutputFormatOption = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output-format",
        rich_help_panel=OUTPUT_PANEL,
        help="Format of the output. Default: CSV if its name ends in .csv; JSON Lines if it ends in .jsonl, .ndjson, .json or "
        "not at all.",
    ),
]
ReportOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", rich_help_panel=OUTPUT_PANEL, help="Write an HTML report: one page, no network."),
]
FlaggedOnlyOption = Annotated[
    bool,
    typer.Option("--flagged-only", rich_help_panel=OUTPUT_PANEL, help="Write only sentences with a doubtful label."),
]
TopOption = Annotated[
    int | None, typer.Option(min=1, metavar="N", rich_help_panel=OUTPUT_PANEL, help="Write only the worst N sentences.")
]
FailOnFlaggedOption = Annotated[
    bool,
    typer.Option(
        "--fail-on-flagged",
        rich_help_panel=OUTPUT_PANEL,
        help=f"Exit with code {EXIT_CODE_FLAGGED} if anything is flagged.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", rich_help_panel=MODEL_PANEL, help="Threads of the onnxruntime session. Default: all cores."
    ),
]
