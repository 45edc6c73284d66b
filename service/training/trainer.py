"""Trains a model folder from labelled sentences: encode, cross-fit, measure, write."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from service.inference.features.folds import N_FOLDS
from service.inference.providers import CPU_ONLY
from service.labels import merge_by_type
from service.scoring.confident import sum_by_class
from service.scoring.flat import merge_classes, merge_labels
from service.training.cross_fit import cross_fit
from service.training.figures import TrainingFigures, compute_figures
from service.training.model_writer import check_model_target, write_model_folder
from service.training.projection import StateProjection
from service.training.sentences import NO_CLASS
from service.training.word_states import WordStateExtractor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from service.inference.model.encoder_folder import EncoderFolder
    from service.training.sentences import TrainingSet

    Step = Literal["encode", "fit"]

MAX_PROJECTION_WORDS = 20_000
REPORT_EVERY = 100  # sentences


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """What was written, and how good it is on sentences that the head of their fold did not see."""

    path: Path
    figures: TrainingFigures
    probs: npt.NDArray[np.float64]


def train_model(
    data: TrainingSet,
    out: Path,
    *,
    name: str,
    encoder: EncoderFolder | None,
    threads: int,
    providers: Sequence[str] = CPU_ONLY,
    on_step: Callable[[Step, int, int], None] | None = None,
) -> TrainedModel:
    """`on_step` is called with the step, how much of it is done, and how much there is. `providers` run the encoder."""
    check_model_target(out)
    report = on_step or _ignore_step
    extractor = None if encoder is None else WordStateExtractor(encoder, threads=threads, providers=providers)
    projected, projection = _project_states(data, extractor, report=report)
    fit = cross_fit(data, projected, projection, on_round=partial(report, "fit"))
    figures = compute_figures(data, fit.probs)
    known = data.given != NO_CLASS
    probs, given = fit.probs[known], data.given[known]
    _, merge = merge_by_type(data.classes, data.scheme)
    write_model_folder(
        out,
        name=name,
        data=data,
        weights=fit.weights,
        encoder=encoder,
        held_out=_sum_classes(probs, given),
        held_out_types=_sum_classes(merge_classes(probs, merge), merge_labels(given, merge)),
        figures={"f1": figures.f1, "types": {each.name: asdict(each) for each in figures.by_type}},
        training={
            "sentences": len(data.sentences),
            "sentences_read": data.n_read,
            "words": len(data.given),
            "types": data.examples,
            "folds": N_FOLDS,
            "encoder": None if encoder is None else encoder.manifest.name,
            "sha256": data.digest,
        },
    )
    return TrainedModel(out, figures, fit.probs)


def _project_states(
    data: TrainingSet, extractor: WordStateExtractor | None, *, report: Callable[[Step, int, int], None]
) -> tuple[npt.NDArray[np.float32], StateProjection | None]:
    """Each word's components. Only a sample's whole states are held at once: they are six times as large."""
    if extractor is None:
        return np.zeros((len(data.given), 0), np.float32), None
    n = len(data.sentences)
    # Every step-th sentence: a fair sample, whatever order the data is in.
    step = -(-len(data.given) // MAX_PROJECTION_WORDS)
    sampled = range(0, n, step)
    others = [index for index in range(n) if index % step]

    def extract(indices: Sequence[int], *, done: int) -> Iterator[npt.NDArray[np.float32]]:
        for number, states in enumerate(extractor.extract(data.sentences[index] for index in indices), done + 1):
            if number % REPORT_EVERY == 0 or number == n:
                report("encode", number, n)
            yield states

    states = np.concatenate(list(extract(sampled, done=0)))
    projection = StateProjection.fit(states)
    projected = np.zeros((len(data.given), projection.matrix.shape[1]), np.float32)
    projected[np.repeat(np.arange(n) % step == 0, np.diff(data.starts))] = projection.project(states)
    for index, own in zip(others, extract(others, done=len(sampled)), strict=True):
        projected[data.starts[index] : data.starts[index + 1]] = projection.project(own)
    return projected, projection


def _sum_classes(probs: npt.NDArray[np.float64], given: npt.NDArray[np.intp]) -> dict[str, list[float]]:
    sums, counts = sum_by_class(probs, given)
    return {"sums": sums.tolist(), "counts": counts.tolist()}


def _ignore_step(step: Step, done: int, total: int) -> None:
    pass
