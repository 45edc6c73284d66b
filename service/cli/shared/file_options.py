"""The options by which commands read files of labelled sentences, written down once for all of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_type_hints

import typer

from service.cli.shared.terminal import STDOUT
from service.contracts import MAX_WORDS
from service.errors import InvalidInput
from service.formats import FORMATS, ReadOptions
from service.formats.platforms.links import normalize_base_url
from service.labels import Scheme

INPUT_PANEL = "Reading the input"
OPTIONS_PARAMETER = "reading"


def _check_format(name: str | None) -> str | None:
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(FORMATS)}.")
    return name


def _check_platform_url(url: str | None) -> str | None:
    try:
        return url if url is None else normalize_base_url(url)
    except InvalidInput as error:
        raise typer.BadParameter(error.problem) from None


FilesArgument = Annotated[
    list[str], typer.Argument(metavar="FILE…", help="Files of labelled sentences; - is standard input.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(FORMATS),
        callback=_check_format,
        rich_help_panel=INPUT_PANEL,
        help="Format of the files; told by name and content where left out.",
    ),
]
WordColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        rich_help_panel=INPUT_PANEL,
        help="Column or field of the words or of the text: its name, in CoNLL files its number (1 is the first, -1 the "
        "last).",
    ),
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        rich_help_panel=INPUT_PANEL,
        help="Column or field of the labels, likewise; of a platform's tasks the control or question with the spans.",
    ),
]
SentenceColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", rich_help_panel=INPUT_PANEL, help="Column that tells the sentences of a table apart."
    ),
]
RowsOption = Annotated[
    Literal["word", "sentence"] | None,
    typer.Option(rich_help_panel=INPUT_PANEL, help="What a row of a table is, where its columns don't tell."),
]
LabelNamesOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…", rich_help_panel=INPUT_PANEL, help="Names of numbered labels in order: O,B-PER,I-PER,…"
    ),
]
CommentsOption = Annotated[
    Literal["auto", "yes", "no"],
    typer.Option(rich_help_panel=INPUT_PANEL, help="Whether lines of a CoNLL file that start with # are comments."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=INPUT_PANEL, help="Encoding of the files; UTF-8 where left out."),
]
PlatformUrlOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        callback=_check_platform_url,
        rich_help_panel=INPUT_PANEL,
        help="Address of the annotation platform, for links back to its tasks.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReadOptions:
    """The files, and what the command line says of them."""

    files: FilesArgument
    format: FormatOption = None
    word_column: WordColumnOption = None
    label_column: LabelColumnOption = None
    sentence_column: SentenceColumnOption = None
    rows: RowsOption = None
    label_names: LabelNamesOption = None
    comments: CommentsOption = "auto"
    encoding: EncodingOption = None
    platform_url: PlatformUrlOption = None

    def __post_init__(self) -> None:
        if self.files.count(STDOUT) > 1:
            raise typer.BadParameter("standard input can be read only once", param_hint="FILE…")

    def to_read_options(self, *, max_words: int = MAX_WORDS, scheme: str | None = None) -> ReadOptions:
        """`scheme` is the one that spans are written in as labels."""
        return ReadOptions(
            word=self.word_column,
            label=self.label_column,
            sentence=self.sentence_column,
            rows=self.rows,
            label_names=tuple(name.strip() for name in self.label_names.split(",")) if self.label_names else (),
            comments=self.comments,
            encoding=self.encoding,
            base_url=self.platform_url,
            max_words=max_words,
            scheme=Scheme(scheme) if scheme is not None else Scheme.IOB2,
        )


def add_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the arguments and options of `Reading` in the place of its parameter `reading`."""
    hints = get_type_hints(FileReadOptions, include_extras=True)
    names = [field.name for field in fields(FileReadOptions)]
    defaults = inspect.signature(FileReadOptions).parameters
    own = inspect.signature(command, eval_str=True).parameters.values()
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name].default, annotation=hints[name])
        for name in names
    ]
    kept = [parameter for parameter in own if parameter.name != OPTIONS_PARAMETER]

    @functools.wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - Typer's own values
        reading = FileReadOptions(**{name: given.pop(name) for name in names})
        command(**{OPTIONS_PARAMETER: reading}, **given)

    signature = inspect.Signature([*added, *kept])
    run.__signature__ = signature  # type: ignore[attr-defined]  # this is what Typer looks at
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return run
