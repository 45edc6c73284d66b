"""`labelwatch export`: the sentences of a dataset, with the corrections of reviewers if asked for.

Each sentence is written in the format it was sent in, unless another is chosen.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.shared.terminal import STDOUT, check_writable, create_output_folder, open_output, print_stderr
from service.contracts import DatasetSettings
from service.errors import SettingsError
from service.formats import FORMATS, choose_format, write_sentences
from service.formats.text.restored_text import WriteContext
from service.review.export import ExportSelection, select_sentences
from service.review.stored_sentences import StoredSentences, read_decisions
from service.runtime.datasets.schemes import DatasetSchemes
from service.runtime.datasets.sentences import check_dataset_stored
from service.runtime.datasets.settings import read_dataset_settings
from service.runtime.open_log import build_topics, open_existing_log
from service.settings import read_settings
from service.text import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.contracts import LabelledSentence
    from service.labels import Scheme
    from service.log.unreadable_records import UnreadableRecord

AUTO_FORMAT = "auto"
EXPORT_FORMATS = (AUTO_FORMAT, *FORMATS)
MAX_PRINTED_PROBLEMS = 5


def _check_format(name: str) -> str:
    if name not in EXPORT_FORMATS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(EXPORT_FORMATS)}.")
    return name


DecisionsOption = Annotated[
    bool, typer.Option("--decisions", help="Write the labels that reviewers corrected. Without it, the given labels.")
]
DatasetOption = Annotated[str, typer.Option(metavar="NAME", help="The dataset to export.")]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="|".join(EXPORT_FORMATS),
        callback=_check_format,
        help="Output format. auto: the format in which the sentences were sent.",
    ),
]
OutputOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE|FOLDER/",
        help="Output file; - is standard output. A folder (ending in /) gets one file per format, and is created if it is missing.",
    ),
]
ReviewerOption = Annotated[str | None, typer.Option(metavar="NAME", help="Use the decisions of this reviewer only.")]
DecidedOnlyOption = Annotated[bool, typer.Option("--decided-only", help="Only sentences that have a decision.")]


def export(
    *,
    decisions: DecisionsOption = False,
    dataset: DatasetOption = "default",
    form: FormatOption = AUTO_FORMAT,
    output: OutputOption = STDOUT,
    reviewer: ReviewerOption = None,
    decided_only: DecidedOnlyOption = False,
) -> None:
    """Write a dataset's sentences, each in its newest revision, with reviewers' corrections where they agree.

    Sentences are read from the input topic, as far back as its retention reaches, and from the review topic. If a record
    can't be read, the others are written and the exit code is 1.
    """
    if (reviewer is not None or decided_only) and not decisions:
        raise SettingsError("--reviewer and --decided-only need --decisions")
    is_folder = output != STDOUT and (output.endswith("/") or Path(output).is_dir())
    if is_folder:
        create_output_folder(output)
    else:
        check_writable(output)
    settings = read_settings()
    topics = build_topics(settings)
    with open_existing_log(settings) as log:
        stored = StoredSentences(log, topics, dataset)
        sentences, unreadable = stored.list_in_order(), stored.list_unreadable()
        if not sentences:
            check_dataset_stored(log, topics, dataset)
        scheme = DatasetSchemes(settings, log, topics).get(dataset)
        dataset_settings = read_dataset_settings(log, topics).get(dataset) or DatasetSettings(name=dataset)
        review = read_decisions(log, topics, dataset, overlap=dataset_settings.overlap)
    selection = ExportSelection(decisions=decisions, decided_only=decided_only, reviewer=reviewer)
    outcomes: Counter[str] = Counter()
    exported: list[LabelledSentence] = []
    for each in select_sentences(sentences, review, selection, scheme=scheme, types=dataset_settings.label_set):
        if each.problem is not None and outcomes["invalid"] < MAX_PRINTED_PROBLEMS:
            print_stderr(f"{dataset}/{each.sentence.id}: the correction is not used: {each.problem}")
        outcomes[each.outcome] += 1
        exported.append(each.sentence)
    write_export(exported, form, output, dataset=dataset, scheme=scheme)
    summary = _summarize_outcomes(outcomes) if decisions else ""
    print_stderr(f"{pluralize(len(exported), 'sentence')} of {dataset}{summary}")
    if unreadable:
        _report_unreadable(unreadable)
        raise typer.Exit(1)


def _report_unreadable(records: list[UnreadableRecord]) -> None:
    for record in records[:MAX_PRINTED_PROBLEMS]:
        print_stderr(f"can't be read: {record}")
    more = len(records) - MAX_PRINTED_PROBLEMS
    print_stderr(
        f"labelwatch: {pluralize(len(records), 'stored record')} can't be read{f' ({more:,} more)' if more > 0 else ''}, so "
        "sentences may be missing or in an older revision: `labelwatch check` looks for damage"
    )


def write_export(
    sentences: list[LabelledSentence],
    form: str,
    output: str,
    *,
    dataset: str,
    scheme: Scheme,
) -> None:
    """Writes one file; several formats need a folder, which gets a file per format."""
    by_format: dict[str, list[LabelledSentence]] = {}
    for sentence in sentences:
        by_format.setdefault(choose_format(sentence) if form == AUTO_FORMAT else form, []).append(sentence)
    if not by_format:
        by_format = {"jsonl" if form == AUTO_FORMAT else form: []}
    is_folder = output != STDOUT and Path(output).is_dir()
    if len(by_format) > 1 and not is_folder:
        formats = ", ".join(f"{len(group):,} as {name}" for name, group in by_format.items())
        raise SettingsError(
            f"the sentences of {dataset} were sent in several formats ({formats}): give --output a folder (corrected/) for "
            f"one file each, or write all in one format, such as --format {next(iter(by_format))}"
        )
    for name, group in by_format.items():
        context = WriteContext(scheme)
        path = str(Path(output) / f"{dataset}{FORMATS[name].export_ending}") if is_folder else output
        with open_output(path) as file:
            write_sentences(file, name, group, context)
        if is_folder:
            print_stderr(f"{path}: {pluralize(len(group), 'sentence')}")
        for note in _list_notes(context):
            print_stderr(f"{name}: {note}")


def _list_notes(context: WriteContext) -> Iterator[str]:
    if context.n_joined:
        yield f"{pluralize(context.n_joined, 'sentence')} came without a text: the words are joined by one space"
    yield from context.notes


def _summarize_outcomes(outcomes: Counter[str]) -> str:
    texts = {
        "corrected": "corrected",
        "ok": "found right",
        "uncorrected": "wrong, but nobody gave the right labels",
        "differ": "where reviewers differ: their labels are as given",
        "adjudication": "in adjudication: not settled yet, their labels are as given",
        "invalid": "with a correction that is not valid: their labels are as given",
    }
    parts = [f"{outcomes[outcome]:,} {text}" for outcome, text in texts.items() if outcomes[outcome]]
    return f" ({'; '.join(parts)})" if parts else " (no decisions)"
