"""`labelwatch evaluate`: the paper's tables, for a model or stored probabilities of sentences with known errors."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from tqdm import tqdm

from service.cli.shared.model_options import ModelOption, PrecisionOption, ThreadsOption
from service.cli.shared.terminal import create_output_folder
from service.errors import SettingsError
from service.evaluation import curves, markdown
from service.evaluation.data import MERGED, UNMERGED, EvaluationData, read_evaluation_data
from service.evaluation.from_model import SECOND_CORRECTED, build_evaluation_data, check_same_words
from service.evaluation.metrics import DEFAULT_RESAMPLES, DEFAULT_SEED
from service.evaluation.report import EvaluationReport, build_document
from service.evaluation.tables import (
    BOTH,
    compare,
    compute_model_f1,
    judge_all,
    measure_agreed,
    measure_flags,
    measure_runs,
)
from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.folder import Precision
from service.inference.providers import parse_providers
from service.runtime.load_model import load_model_folder
from service.settings import read_settings


class ClassSetChoice(StrEnum):
    """The sets of classes to judge."""

    BOTH = BOTH
    MERGED = MERGED
    UNMERGED = UNMERGED


class MemoryChoice(StrEnum):
    """The dataset setting `memory`."""

    AUTO = "auto"
    DOCUMENTS = "documents"
    OFF = "off"


GivenArgument = Annotated[Path | None, typer.Argument(metavar="GIVEN", help="File of sentences with the given labels.")]
CorrectedArgument = Annotated[
    Path | None, typer.Argument(metavar="CORRECTED", help="File of the same sentences with the true labels.")
]
ProbsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.npz", help="Archive of probabilities, given and corrected labels, instead of files and a model."
    ),
]
StreamOption = Annotated[
    bool, typer.Option("--stream", help="Also judge each sentence by those before it, in file order.")
]
SecondCorrectedOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="True labels by someone else: also measure on the sentences where both corrections agree."
    ),
]
MemoryOption = Annotated[
    MemoryChoice, typer.Option(help="With --stream: the memory to compare priority with and without.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write evaluation.json, tables.md and PNG curves to this folder. It is created if it is missing.",
    ),
]
ClassesOption = Annotated[
    ClassSetChoice, typer.Option(help="Judge the classes as they are, merged to entity types, or both.")
]
BootstrapOption = Annotated[
    int, typer.Option(min=0, metavar="N", help="Bootstrap resamples for the intervals; 0 turns them off.")
]
SeedOption = Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the bootstrap.")]
AgainstOption = Annotated[
    Path | None,
    typer.Option(
        metavar="OTHER.npz", help="Compare with other probabilities of the same sentences, as paired differences."
    ),
]


class ProbabilitySource(NamedTuple):
    """The arguments that say where the probabilities come from."""

    given: Path | None
    corrected: Path | None
    second_corrected: Path | None
    probs: Path | None
    model: str | None
    precision: Precision
    threads: int


def evaluate(
    given: GivenArgument = None,
    corrected: CorrectedArgument = None,
    *,
    probs: ProbsOption = None,
    model: ModelOption = None,
    stream: StreamOption = False,
    memory: MemoryOption = MemoryChoice.AUTO,
    second_corrected: SecondCorrectedOption = None,
    out: OutOption = None,
    classes: ClassesOption = ClassSetChoice.BOTH,
    bootstrap: BootstrapOption = DEFAULT_RESAMPLES,
    seed: SeedOption = DEFAULT_SEED,
    against: AgainstOption = None,
    precision: PrecisionOption = "fast",
    threads: ThreadsOption = 1,
) -> None:
    """Measure how well each score finds labels that are known to be wrong, with bootstrap intervals."""
    if out is not None:
        create_output_folder(str(out))
    data = _load_evaluation_data(
        ProbabilitySource(given, corrected, second_corrected, probs, model, precision, threads)
    )
    runs = judge_all(data, stream=stream, classes=classes, memory=memory)
    other = None if against is None else read_evaluation_data(against)
    evaluation = EvaluationReport(
        data=data,
        runs=runs,
        results=measure_runs(runs, n=bootstrap, seed=seed),
        flags=[measure_flags(run) for run in runs],
        f1=compute_model_f1(data),
        resamples=bootstrap,
        seed=seed,
        against=None if other is None else other.name,
        comparisons=()
        if other is None
        else compare(data, other, stream=stream, classes=classes, n=bootstrap, seed=seed, runs=runs),
        agreed=[result for run in runs for result in measure_agreed(run)],
    )
    typer.echo(markdown.render_markdown(evaluation), nl=False)
    if out is not None:
        _write_evaluation(evaluation, out)


def _load_evaluation_data(source: ProbabilitySource) -> EvaluationData:
    """Loads probabilities from an archive, or computes them with a model from two files."""
    files = [path for path in (source.given, source.corrected) if path is not None]
    if source.probs is not None:
        if files or source.second_corrected or source.model:
            raise typer.BadParameter(
                "--probs brings its own labels: leave GIVEN, CORRECTED, --second-corrected and --model out"
            )
        return read_evaluation_data(source.probs)
    if len(files) != 2:
        raise typer.BadParameter("give the files GIVEN and CORRECTED, or the probabilities with --probs FILE.npz")
    settings = read_settings()
    folder = load_model_folder(settings, source.model, precision=source.precision)
    classifier = Classifier(folder, threads=source.threads, providers=parse_providers(settings.model.providers))
    given, corrected = (list(read_sentences(path)) for path in files)
    second = None if source.second_corrected is None else list(read_sentences(source.second_corrected))
    name = f"{files[0].name} with the model {folder.name}"
    check_same_words(given, corrected)
    if second is not None:
        check_same_words(given, second, field=SECOND_CORRECTED)
    answers = tqdm(
        classifier.infer_stream(sentence.tokens for sentence in given),
        total=len(given),
        unit=" sentences",
        disable=None,
        file=sys.stderr,
    )
    return build_evaluation_data(folder, given, corrected, answers, name=name, second_corrected=second)


def _write_evaluation(evaluation: EvaluationReport, out: Path) -> None:
    try:
        tables, figures = out / "tables.md", out / "evaluation.json"
        tables.write_text(markdown.render_markdown(evaluation), encoding="utf-8")
        figures.write_text(json.dumps(build_document(evaluation), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        written = [figures, tables]
        try:
            written += curves.draw_curves(evaluation.runs, out)
        except SettingsError as error:  # the tables are useful without the curves
            typer.echo(f"labelwatch: no curves were drawn: {error}", err=True)
    except OSError as error:
        raise SettingsError(f"can't write to {out}: {error.strerror or error}") from error
    typer.echo(f"\n{markdown.render_headline(evaluation)}")
    for path in written:
        typer.echo(path)
