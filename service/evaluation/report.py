"""All results of one evaluation, and their JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from service.evaluation.metrics import CONFIDENCE_LEVEL, EntityF1, compute_noise_matrix
from service.evaluation.runs import BATCH, EvaluationRun
from service.evaluation.tables import Comparison, EvaluationResult, FlagMetrics, nan_to_none

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.evaluation.data import EvaluationData

FORMAT_VERSION: Final = 1
NOTES: Final = {
    "keep": "Sentences that are not kept are left out of scoring and learning.",
    "batch": (
        "Batch flags (the paper's b_i) are prune-by-noise-rate over the whole data set; "
        "batch priority uses weights from the whole data set, the judged sentence included."
    ),
    "stream": (
        "In the stream each sentence is judged with the statistics of those before it, in file order, then added to them: "
        "flags are the confident-learning rule with running thresholds."
    ),
    "memory": (
        "Priority with memory also uses what was seen of the same words and patterns in the sentences before: "
        "`auto` and `documents` are the values of the dataset setting."
    ),
    "agreed": "Sentences on which the two corrections differ are judged and learned from, but not measured.",
    "ties": "Equal scores have no order: AUPRC, lift and precision@K are the mean over all orders of tied sentences.",
    "auprc": "AUPRC is the trapezoid from the first ranked sentence, as in the paper; AP is the step-wise area.",
    "lift": "T is the number of wrong sentences. The paper's lift is at T + 1.",
}


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """The input and all results of one evaluation."""

    data: EvaluationData
    runs: Sequence[EvaluationRun]
    results: Sequence[EvaluationResult]
    flags: Sequence[FlagMetrics]
    f1: dict[str, EntityF1] | None
    resamples: int
    seed: int
    against: str | None = None
    comparisons: Sequence[Comparison] = ()
    agreed: Sequence[EvaluationResult] = ()
    """On the sentences on which two corrections agree."""

    @property
    def batch_runs(self) -> list[EvaluationRun]:
        """The batch run of each variant."""
        return [run for run in self.runs if run.mode == BATCH]


def build_document(report: EvaluationReport) -> dict[str, object]:
    """The content of evaluation.json."""
    document: dict[str, object] = {
        "version": FORMAT_VERSION,
        "data": _describe_data(report),
        "f1": None if report.f1 is None else {name: _replace_nan(f1._asdict()) for name, f1 in report.f1.items()},
        "bootstrap": {"resamples": report.resamples, "seed": report.seed, "level": CONFIDENCE_LEVEL},
        "notes": NOTES,
        "results": [result.to_json() for result in report.results],
        "flags": [_replace_nan(asdict(metrics)) for metrics in report.flags],
        "noise_matrix": {run.variant.name: _describe_noise(run) for run in report.batch_runs},
    }
    if report.agreed:
        document["agreed"] = {
            "sentences": {run.variant.name: count_agreed(run) for run in report.batch_runs},
            "results": [result.to_json() for result in report.agreed],
        }
    if report.against is not None:
        rows = [{**asdict(row), **row.difference._asdict()} for row in report.comparisons]
        document["against"] = {"name": report.against, "results": [_replace_nan(row) for row in rows]}
    return document


def count_agreed(run: EvaluationRun) -> int:
    """How many sentences both corrections agree on."""
    agreed = run.variant.agreed_sentences
    return 0 if agreed is None else int(agreed.sum())


def _replace_nan(record: dict[str, object]) -> dict[str, object]:
    return {key: nan_to_none(value) if isinstance(value, float) else value for key, value in record.items()}


def _describe_data(report: EvaluationReport) -> dict[str, object]:
    return {
        "name": report.data.name,
        "sentences": report.data.flat.n_sentences,
        "kept_sentences": int(report.data.keep.sum()),
        "words": len(report.data.flat.given),
        "kept_words": len(report.batch_runs[0].variant.flat.given),
        "labels": list(report.data.labels),
        "held_out_prior": bool(report.data.held_out),
        "variants": {
            run.variant.name: {
                "classes": list(run.variant.classes),
                "wrong_sentences": int(run.variant.wrong_sentences.sum()),
                "wrong_words": int(run.variant.wrong_words.sum()),
            }
            for run in report.batch_runs
        },
    }


def _describe_noise(run: EvaluationRun) -> dict[str, object]:
    counts = compute_noise_matrix(run.variant.flat.given, run.variant.corrected, len(run.variant.classes))
    return {"classes": list(run.variant.classes), "rows": "truth", "columns": "given", "counts": counts.tolist()}
