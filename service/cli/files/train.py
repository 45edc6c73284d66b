"""`labelwatch train`: trains a model for a team's own labels, then audits the training data with it.

Exit codes: 0 done, 1 the input can't be used (one line on stderr says why), 2 wrong usage.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from tqdm import tqdm

from service.audit.report.page import Conflict, TrainingSection, TypeRow
from service.cli.files.audit_input import AuditInput, prepare_audit_input
from service.cli.files.audit_run import AuditOutputs, count_cores, run_audit
from service.cli.shared import score_options as opt
from service.cli.shared.file_options import FileReadOptions, add_file_options
from service.cli.shared.model_options import MODEL_PANEL
from service.cli.shared.options import ProgressOption
from service.cli.shared.rejects import RejectHandler
from service.cli.shared.tables import render_table, truncate
from service.cli.shared.terminal import print_stderr
from service.contracts import DatasetSettings
from service.contracts.base import MODEL_NAME_RULE
from service.inference.model.folder import ModelFolder
from service.inference.model.registry import ModelRegistry, choose_version_name
from service.inference.providers import parse_providers
from service.labels import Scheme
from service.runtime.datasets.sentences import DatasetSource, check_dataset_stored
from service.runtime.open_log import build_topics, open_existing_log
from service.runtime.sentence_files import STDIN, FileSource
from service.settings import read_settings
from service.text import pluralize
from service.training.encoder_choice import load_encoder
from service.training.figures import WARN_SENTENCES
from service.training.model_writer import check_model_target
from service.training.sentences import MIN_TYPE_EXAMPLES, collect_sentences
from service.training.trainer import train_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from service.contracts import LabelledSentence
    from service.formats import FileRecord
    from service.settings import Settings
    from service.training.figures import TrainingFigures
    from service.training.sentences import TrainingSet
    from service.training.trainer import Step

N_WORST = 10
MAX_SHOWN_CONFLICTS = 5
STEP_NAMES = {"encode": "encoding", "fit": "fitting"}

DatasetOption = Annotated[
    str | None,
    typer.Option(
        "--dataset",
        metavar="NAME",
        help="Train on what the service has stored of this dataset, with reviewers' corrections, instead of files.",
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME",
        rich_help_panel=MODEL_PANEL,
        help=f"Name of the model: {MODEL_NAME_RULE}. Default with --dataset news: news-v1, then news-v2 and so on.",
    ),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        metavar="DIR|none",
        rich_help_panel=MODEL_PANEL,
        help="Encoder folder, or `none` for hashed text features alone. Default: the encoder for English that comes "
        "with labelwatch.",
    ),
]
ReplaceOption = Annotated[
    bool, typer.Option("--replace", rich_help_panel=MODEL_PANEL, help="Replace the model that has this name.")
]


@partial(add_file_options, require_files=False)
def train(
    *,
    input_files: FileReadOptions,
    dataset: DatasetOption = None,
    name: NameOption = None,
    encoder: EncoderOption = None,
    replace_model: ReplaceOption = False,
    on_error: opt.OnErrorOption = "stop",
    scheme: opt.SchemeOption = None,
    output: opt.OutputOption = None,
    output_format: opt.OutputFormatOption = None,
    report: opt.ReportOption = None,
    threads: opt.ThreadsOption = None,
    progress: ProgressOption = None,
) -> None:
    """Train a model for your own labels, and find the label errors in the data it is trained on.

    Each sentence is judged by a part of the model that was trained without it, so that the audit of the training data is
    out of sample. The model goes into the registry (LABELWATCH_MODELS_PATH); `labelwatch score --model NAME` uses it.
    """
    if bool(input_files.files) == (dataset is not None):
        raise typer.BadParameter("give files, or --dataset for what the service has stored", param_hint="FILE")
    settings = read_settings()
    registry = ModelRegistry(settings.models.path)
    if name is None:
        if dataset is None:
            raise typer.BadParameter("name the model", param_hint="--name")
        name = choose_version_name(dataset, registry.list_names())
    out = registry.get_path(name)
    if out.exists() and not replace_model:
        raise typer.BadParameter(
            f"{out} exists: choose another name, or replace it with --replace", param_hint="--name"
        )
    sources = input_files.files if dataset is None else [f"dataset {dataset}"]
    outputs = AuditOutputs(sources, output, output_format, report=report, top=N_WORST if output is None else None)
    rejects = RejectHandler(on_error, output)
    outputs.check_paths(rejects)
    providers = parse_providers(settings.model.providers)
    encoder_folder = load_encoder(encoder)
    check_model_target(out)
    with ExitStack() as stack:
        source: FileSource | DatasetSource
        if dataset is None:
            stack.enter_context(rejects)
            source = _open_files(input_files, scheme)
            data_input = prepare_audit_input(source, {}, scheme=scheme, stop_on_error=rejects.stops_on_error)
        else:
            source = _open_dataset(stack, settings, dataset, scheme)
            stack.enter_context(rejects)
            data_input = AuditInput(source.iter_records(), source.scheme)
        data = collect_sentences(_iter_sentences(data_input.records, rejects), data_input.scheme)
        _print_warnings(data)
        with _StepBars(progress) as bars:
            trained = train_model(
                data,
                out,
                name=name,
                encoder=encoder_folder,
                threads=threads or count_cores(),
                providers=providers,
                on_step=bars.update,
            )
        section = _build_section(data, trained.figures)
        typer.echo(_render_figures(section))
        if output is None:
            typer.echo(f"\nThe worst {N_WORST} sentences of the training data:\n")
        run_audit(
            replace(data_input, records=source.iter_records()).drop_probabilities(),
            ModelFolder.load(out),
            DatasetSettings(scheme=data_input.scheme.value),
            stream=False,
            outputs=outputs,
            rejects=rejects,
            threads=threads or count_cores(),
            providers=settings.model.providers,
            progress=progress,
            training=section,
        )
    print_stderr(f"model: {out}")
    if dataset is not None:
        print_stderr(f"next: labelwatch datasets set {dataset} model={name}")
        return
    print_stderr(f"next: labelwatch score FILE --model {name}, or labelwatch datasets set DATASET model={name}")


def _open_files(input_files: FileReadOptions, scheme: str | None) -> FileSource:
    source = FileSource(input_files.files, input_files.to_read_options(scheme=scheme), format=input_files.format)
    if any(file == STDIN or (Path(file).exists() and not Path(file).is_file()) for file in source.files):
        raise typer.BadParameter("training reads the files twice: give files, not standard input or a pipe")
    return source


def _open_dataset(stack: ExitStack, settings: Settings, dataset: str, scheme: str | None) -> DatasetSource:
    topics, log = build_topics(settings), stack.enter_context(open_existing_log(settings))
    source = DatasetSource(log, topics, dataset, scheme=None if scheme is None else Scheme(scheme))
    if next(iter(source), None) is None:
        check_dataset_stored(log, topics, dataset)
    return source


class _StepBars:
    """A progress bar for each step of training."""

    def __init__(self, progress: bool | None) -> None:
        self._disabled = not (sys.stderr.isatty() if progress is None else progress)
        self._bars: dict[str, tqdm] = {}

    def __enter__(self) -> _StepBars:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.close()

    def update(self, step: Step, done: int, total: int) -> None:
        if step not in self._bars:
            self._bars[step] = tqdm(total=total, desc=STEP_NAMES[step], file=sys.stderr, disable=self._disabled)
        self._bars[step].update(done - self._bars[step].n)


def _iter_sentences(records: Iterable[FileRecord], rejects: RejectHandler) -> Iterator[LabelledSentence]:
    for record in records:
        if record.error is not None:
            if rejects.stops_on_error:
                raise record.error
            # Else the audit afterwards lists it.
        elif record.sentence is not None:
            yield record.sentence


def _print_warnings(data: TrainingSet) -> None:
    if len(data.sentences) < data.n_read:
        print_stderr(
            f"{data.n_read:,} sentences are more than training needs: {len(data.sentences):,} are drawn by a hash"
        )
    if len(data.sentences) < WARN_SENTENCES:
        print_stderr(
            f"warning: {pluralize(len(data.sentences), 'sentence')} are few, {WARN_SENTENCES} are a good start: expect "
            "false alarms"
        )
    if data.unscored_types:
        names = ", ".join(f"{name} ({data.examples[name]})" for name in data.unscored_types)
        print_stderr(
            f"warning: types with fewer than {MIN_TYPE_EXAMPLES} examples are not judged: {names}; label more of them"
        )
    if data.conflicts:
        print_stderr(
            f"{pluralize(len(data.conflicts), 'sentence')} {'occurs' if len(data.conflicts) == 1 else 'occur'} more than "
            "once with different labels: at least one version of each is wrong"
        )
        for conflict in data.conflicts[:MAX_SHOWN_CONFLICTS]:
            print_stderr(f"  {', '.join(conflict.ids)}: {truncate(' '.join(conflict.words))}")


def _build_section(data: TrainingSet, figures: TrainingFigures) -> TrainingSection:
    types = [
        TypeRow(each.name, each.examples, each.verdict, each.precision, each.recall, each.f1)
        for each in figures.by_type
    ]
    types += [TypeRow(name, data.examples[name], "not judged: too few examples") for name in data.unscored_types]
    return TrainingSection(
        sentences=len(data.sentences),
        sentences_read=data.n_read,
        f1=figures.f1,
        types=types,
        conflicts=[Conflict(truncate(" ".join(each.words)), truncate(", ".join(each.ids))) for each in data.conflicts],
    )


def _render_figures(section: TrainingSection) -> str:
    rows = [
        (
            row.name,
            f"{row.examples:,}",
            *("" if value is None else f"{value:.2f}" for value in (row.precision, row.recall, row.f1)),
            row.verdict,
        )
        for row in section.types
    ]
    table = render_table(("type", "examples", "precision", "recall", "F1", "verdict"), rows, right_aligned=(1, 2, 3, 4))
    return (
        f"{table}\nF1 {section.f1:.2f} over all types, on sentences that the model had not seen. It is measured against the "
        "given labels, errors included. An error that annotators make consistently is learned, not found."
    )
