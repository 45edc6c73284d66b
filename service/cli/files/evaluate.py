"""`labelwatch evaluate`: the paper's tables for any probabilities of sentences whose wrong labels are known."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from tqdm import tqdm

from service.errors import SettingsError
from service.evaluation import curves, report
from service.evaluation.data import MERGED, UNMERGED, EvaluationData, data_from_npz
from service.evaluation.from_model import check_same_words, data_from_model
from service.evaluation.metrics import DEFAULT_RESAMPLES, DEFAULT_SEED
from service.evaluation.tables import BOTH, compare, compute_model_f1, judge_all, measure_flags, measure_runs
from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.default import find_default_model
from service.inference.model.folder import ModelFolder, Precision


class ClassSetChoice(StrEnum):
    """Which sets of classes are judged."""

    BOTH = BOTH
    MERGED = MERGED
    UNMERGED = UNMERGED


GivenArgument = Annotated[Path | None, typer.Argument(help="Sentences with the labels they were given.")]
CorrectedArgument = Annotated[Path | None, typer.Argument(help="The same sentences with the true labels.")]
ProbsOption = Annotated[
    Path | None, typer.Option(metavar="FILE.npz", help="Probabilities, given and corrected labels in one archive.")
]
ModelOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The model that reads GIVEN and CORRECTED; the default model if left out."),
]
StreamOption = Annotated[bool, typer.Option("--stream", help="Also judge one sentence after the other, in file order.")]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Also write evaluation.json, tables.md and PNG curves here."),
]
ClassesOption = Annotated[ClassSetChoice, typer.Option(help="Classes as they are, merged to entity types, or both.")]
BootstrapOption = Annotated[int, typer.Option(min=0, help="Resamples behind the intervals; 0: none.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the resamples.")]
AgainstOption = Annotated[
    Path | None,
    typer.Option(metavar="OTHER.npz", help="Paired difference to other probabilities of the same sentences."),
]


class ProbabilitySource(NamedTuple):
    """What the command line says of where the probabilities come from."""

    given: Path | None
    corrected: Path | None
    probs: Path | None
    model: Path | None
    precision: Precision
    threads: int


def evaluate(
    given: GivenArgument = None,
    corrected: CorrectedArgument = None,
    *,
    probs: ProbsOption = None,
    model: ModelOption = None,
    stream: StreamOption = False,
    out: OutOption = None,
    classes: ClassesOption = ClassSetChoice.BOTH,
    bootstrap: BootstrapOption = DEFAULT_RESAMPLES,
    seed: SeedOption = DEFAULT_SEED,
    against: AgainstOption = None,
    precision: Annotated[Precision, typer.Option(help="Which of the model folder's graphs.")] = "fast",
    threads: Annotated[int, typer.Option(min=1, help="Threads of the onnxruntime session.")] = 1,
) -> None:
    """How well the scores find labels that are known to be wrong: the paper's tables, with intervals."""
    data = _load_evaluation_data(ProbabilitySource(given, corrected, probs, model, precision, threads))
    judged = judge_all(data, stream=stream, classes=classes)
    other = None if against is None else data_from_npz(against)
    found = report.EvaluationReport(
        data=data,
        runs=judged,
        results=measure_runs(judged, n=bootstrap, seed=seed),
        flags=[measure_flags(run) for run in judged],
        f1=compute_model_f1(data),
        resamples=bootstrap,
        seed=seed,
        against=None if other is None else other.name,
        comparisons=()
        if other is None
        else compare(data, other, stream=stream, classes=classes, n=bootstrap, seed=seed, runs=judged),
    )
    typer.echo(report.render_markdown(found), nl=False)
    if out is not None:
        _write_evaluation(found, out)


def _load_evaluation_data(source: ProbabilitySource) -> EvaluationData:
    """Where the probabilities come from: an archive, or a model that reads two files."""
    files = [path for path in (source.given, source.corrected) if path is not None]
    if source.probs is not None:
        if files or source.model:
            raise typer.BadParameter("--probs brings its own labels: leave GIVEN, CORRECTED and --model out")
        return data_from_npz(source.probs)
    if len(files) != 2:
        raise typer.BadParameter("give the files GIVEN and CORRECTED, or the probabilities with --probs FILE.npz")
    folder = ModelFolder.load(source.model or find_default_model(), precision=source.precision)
    classifier = Classifier(folder, threads=source.threads)
    given, corrected = (list(read_sentences(path)) for path in files)
    name = f"{files[0].name} with the model {folder.name}"
    check_same_words(given, corrected)
    answers = tqdm(
        classifier.infer_stream(sentence.tokens for sentence in given),
        total=len(given),
        unit=" sentences",
        disable=None,
        file=sys.stderr,
    )
    return data_from_model(folder, given, corrected, answers, name=name)


def _write_evaluation(evaluation: report.EvaluationReport, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        tables, figures = out / "tables.md", out / "evaluation.json"
        tables.write_text(report.render_markdown(evaluation), encoding="utf-8")
        figures.write_text(
            json.dumps(report.build_document(evaluation), indent=1, allow_nan=False) + "\n", encoding="utf-8"
        )
        written = [figures, tables]
        try:
            written += curves.draw_curves(evaluation.runs, out)
        except SettingsError as error:  # figures are worth having without pictures
            typer.echo(f"labelwatch: no curves were drawn: {error}", err=True)
    except OSError as error:
        raise SettingsError(f"can't write to {out}: {error.strerror or error}") from error
    typer.echo(f"\n{report.render_headline(evaluation)}")
    for path in written:
        typer.echo(path)
