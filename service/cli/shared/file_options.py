"""The arguments and options of commands that read files of labelled sentences.

Typer takes options from the parameters of a function, one by one; it has no parameter that stands for a group of
options. `add_file_options` adds the group to a command's signature, so that the options exist once and `score` and
`send` can't drift apart.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_type_hints

import typer

from service.contracts import MAX_WORDS
from service.errors import InvalidInput
from service.formats import FORMATS, ReadOptions
from service.formats.platforms.links import normalize_base_url
from service.labels import Scheme
from service.runtime.sentence_files import STDIN

INPUT_PANEL = "Input"
OPTIONS_PARAMETER = "input_files"


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
    list[str], typer.Argument(metavar="FILE", help="Files of labelled sentences; - is standard input.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(FORMATS),
        callback=_check_format,
        rich_help_panel=INPUT_PANEL,
        help="Format of the files. Default: detected from name and content.",
    ),
]
WordColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        rich_help_panel=INPUT_PANEL,
        help="Column or field of the words or of the text: its name, or in CoNLL files its number (1 is the first, -1 "
        "the last).",
    ),
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        rich_help_panel=INPUT_PANEL,
        help="Column or field of the labels; for exports of a platform, the control or question that holds the spans.",
    ),
]
SentenceColumnOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", rich_help_panel=INPUT_PANEL, help="Column of a table that identifies the sentence."),
]
RowsOption = Annotated[
    Literal["word", "sentence"] | None,
    typer.Option(rich_help_panel=INPUT_PANEL, help="Content of a table's row. Default: detected from the columns."),
]
LabelNamesOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…", rich_help_panel=INPUT_PANEL, help="Names of numbered labels, in order: O,B-PER,I-PER,…"
    ),
]
CommentsOption = Annotated[
    Literal["auto", "yes", "no"],
    typer.Option(rich_help_panel=INPUT_PANEL, help="Whether lines of a CoNLL file that start with # are comments."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", rich_help_panel=INPUT_PANEL, help="Encoding of the files. Default: UTF-8."),
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
    """The files of the command line and how to read them."""

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
        if self.files.count(STDIN) > 1:
            raise typer.BadParameter("standard input can be read only once", param_hint="FILE")

    def to_read_options(self, *, max_words: int = MAX_WORDS, scheme: str | None = None) -> ReadOptions:
        """`scheme`: the scheme of labels that are made from spans."""
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


def describe_empty_files(files: Sequence[str]) -> str:
    return f"no sentence in {', '.join(files)}"


def add_file_options(command: Callable[..., None], *, require_files: bool = True) -> Callable[..., None]:
    """Replaces the command's parameter `input_files` by one parameter for each field of `FileReadOptions`."""
    hints = get_type_hints(FileReadOptions, include_extras=True)
    names = [field.name for field in fields(FileReadOptions)]
    defaults = {name: field.default for name, field in inspect.signature(FileReadOptions).parameters.items()}
    if not require_files:
        defaults["files"] = []
    command_parameters = inspect.signature(command, eval_str=True).parameters.values()
    file_parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=hints[name])
        for name in names
    ]
    other_parameters = [parameter for parameter in command_parameters if parameter.name != OPTIONS_PARAMETER]

    @functools.wraps(command)
    def run(**values: Any) -> None:  # noqa: ANN401 - Typer's own values
        input_files = FileReadOptions(**{name: values.pop(name) for name in names})
        command(**{OPTIONS_PARAMETER: input_files}, **values)

    signature = inspect.Signature([*file_parameters, *other_parameters])
    run.__signature__ = signature  # type: ignore[attr-defined]  # this is what Typer looks at
    run.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    return run
