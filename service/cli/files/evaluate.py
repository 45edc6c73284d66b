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
from service.evaluation.from_model import check_pairs, data_from_model
from service.evaluation.metrics import DEFAULT_RESAMPLES, DEFAULT_SEED
from service.evaluation.tables import BOTH, compare, flag_figures, judge_all, measure, model_f1
from service.formats import read_sentences
from service.inference.classifier import Classifier
from service.inference.model.default import default_model
from service.inference.model.folder import ModelFolder, Precision


class Classes(StrEnum):
    """Which sets of classes are judged."""

    BOTH = BOTH
    MERGED = MERGED
    UNMERGED = UNMERGED


Given = Annotated[Path | None, typer.Argument(help="Sentences with the labels they were given.")]
Corrected = Annotated[Path | None, typer.Argument(help="The same sentences with the true labels.")]
Probs = Annotated[
    Path | None, typer.Option(metavar="FILE.npz", help="Probabilities, given and corrected labels in one archive.")
]
Model = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The model that reads GIVEN and CORRECTED; the default model if left out."),
]
Stream = Annotated[bool, typer.Option("--stream", help="Also judge one sentence after the other, in file order.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Also write evaluation.json, tables.md and PNG curves here."),
]
ClassSets = Annotated[Classes, typer.Option(help="Classes as they are, merged to entity types, or both.")]
Bootstrap = Annotated[int, typer.Option(min=0, help="Resamples behind the intervals; 0: none.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the resamples.")]
Against = Annotated[
    Path | None,
    typer.Option(metavar="OTHER.npz", help="Paired difference to other probabilities of the same sentences."),
]


class Source(NamedTuple):
    """What the command line says of where the probabilities come from."""

    given: Path | None
    corrected: Path | None
    probs: Path | None
    model: Path | None
    precision: Precision
    threads: int


def evaluate(
    given: Given = None,
    corrected: Corrected = None,
    *,
    probs: Probs = None,
    model: Model = None,
    stream: Stream = False,
    out: Out = None,
    classes: ClassSets = Classes.BOTH,
    bootstrap: Bootstrap = DEFAULT_RESAMPLES,
    seed: Seed = DEFAULT_SEED,
    against: Against = None,
    precision: Annotated[Precision, typer.Option(help="Which of the model folder's graphs.")] = "fast",
    threads: Annotated[int, typer.Option(min=1, help="Threads of the onnxruntime session.")] = 1,
) -> None:
    """How well the scores find labels that are known to be wrong: the paper's tables, with intervals."""
    data = _data(Source(given, corrected, probs, model, precision, threads))
    judged = judge_all(data, stream=stream, classes=classes)
    other = None if against is None else data_from_npz(against)
    found = report.Evaluation(
        data=data,
        judged=judged,
        results=measure(judged, n=bootstrap, seed=seed),
        flags=[flag_figures(run) for run in judged],
        f1=model_f1(data),
        resamples=bootstrap,
        seed=seed,
        against=None if other is None else other.name,
        comparisons=()
        if other is None
        else compare(data, other, stream=stream, classes=classes, n=bootstrap, seed=seed, judged=judged),
    )
    typer.echo(report.render(found), nl=False)
    if out is not None:
        _write(found, out)


def _data(source: Source) -> EvaluationData:
    """Where the probabilities come from: an archive, or a model that reads two files."""
    files = [path for path in (source.given, source.corrected) if path is not None]
    if source.probs is not None:
        if files or source.model:
            raise typer.BadParameter("--probs brings its own labels: leave GIVEN, CORRECTED and --model out")
        return data_from_npz(source.probs)
    if len(files) != 2:
        raise typer.BadParameter("give the files GIVEN and CORRECTED, or the probabilities with --probs FILE.npz")
    folder = ModelFolder.load(source.model or default_model(), precision=source.precision)
    classifier = Classifier(folder, threads=source.threads)
    given, corrected = (list(read_sentences(path)) for path in files)
    name = f"{files[0].name} with the model {folder.name}"
    check_pairs(given, corrected)
    answers = tqdm(
        classifier.infer_stream(sentence.tokens for sentence in given),
        total=len(given),
        unit=" sentences",
        disable=None,
        file=sys.stderr,
    )
    return data_from_model(folder, given, corrected, answers, name=name)


def _write(found: report.Evaluation, out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        tables, figures = out / "tables.md", out / "evaluation.json"
        tables.write_text(report.render(found), encoding="utf-8")
        figures.write_text(json.dumps(report.document(found), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        written = [figures, tables]
        try:
            written += curves.draw(found.judged, out)
        except SettingsError as error:  # figures are worth having without pictures
            typer.echo(f"labelwatch: no curves were drawn: {error}", err=True)
    except OSError as error:
        raise SettingsError(f"can't write to {out}: {error.strerror or error}") from error
    typer.echo(f"\n{report.headline(found)}")
    for path in written:
        typer.echo(path)
