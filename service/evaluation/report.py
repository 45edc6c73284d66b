"""An evaluation as one JSON document and as Markdown tables in the paper's shape."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.evaluation import paper
from service.evaluation.data import UNMERGED, EvaluationData
from service.evaluation.metrics import CONFIDENCE_LEVEL, EntityF1, compute_noise_matrix
from service.evaluation.runs import BATCH, EvaluationRun
from service.evaluation.tables import (
    COMPARED_METHODS,
    SENTENCE,
    TOKEN,
    Comparison,
    EvaluationResult,
    FlagMetrics,
    nan_to_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FORMAT_VERSION: Final = 1
NOTES: Final = {
    "keep": "Sentences that are not kept are left out of scoring and learning.",
    "batch": (
        "Batch flags (the paper's b_i) are prune-by-noise-rate over the whole data set; "
        "batch priority has weights from a whole pass, so each sentence has taught the weights it is judged with."
    ),
    "stream": (
        "In the stream each sentence is judged by those before it, in file order, and teaches after: "
        "flags are the confident-learning rule with running thresholds."
    ),
    "ties": "Equal scores have no order: AUPRC, lift and precision@K are the mean over all orders of tied sentences.",
    "auprc": "AUPRC is the trapezoid from the first ranked sentence, as in the paper; AP is the step-wise area.",
    "lift": "T is the number of wrong sentences. The paper's lift is at T + 1.",
}


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """Everything one run of the command found."""

    data: EvaluationData
    runs: Sequence[EvaluationRun]
    results: Sequence[EvaluationResult]
    flags: Sequence[FlagMetrics]
    f1: dict[str, EntityF1] | None
    resamples: int
    seed: int
    against: str | None = None
    comparisons: Sequence[Comparison] = ()

    @property
    def batch_runs(self) -> list[EvaluationRun]:
        """One for each variant."""
        return [run for run in self.runs if run.mode == BATCH]


def build_document(report: EvaluationReport) -> dict[str, object]:
    """What goes into evaluation.json."""
    found: dict[str, object] = {
        "version": FORMAT_VERSION,
        "data": _describe_data(report),
        "f1": None if report.f1 is None else {name: _replace_nan(f1._asdict()) for name, f1 in report.f1.items()},
        "bootstrap": {"resamples": report.resamples, "seed": report.seed, "level": CONFIDENCE_LEVEL},
        "notes": NOTES,
        "results": [result.to_json() for result in report.results],
        "flags": [_replace_nan(asdict(figures)) for figures in report.flags],
        "noise_matrix": {run.variant.name: _describe_noise(run) for run in report.batch_runs},
    }
    if report.against is not None:
        rows = [{**asdict(row), **row.difference._asdict()} for row in report.comparisons]
        found["against"] = {"name": report.against, "results": [_replace_nan(row) for row in rows]}
    return found


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


def render_markdown(report: EvaluationReport) -> str:
    """The paper's three tables and what belongs to them, as Markdown."""
    parts = [f"# Label errors found in {report.data.name}", _render_summary(report)]
    parts += [
        _render_sentence_table(report, "AUPRC", "auprc", lambda row: row.auprc),
        _render_sentence_table(report, "AUROC", "auroc", lambda row: row.auroc),
        _render_sentence_table(
            report, "Lift @ T + 1 (T: number of wrong sentences)", "lift_at_t1", lambda row: row.lift, digits=2
        ),
        _render_sentence_table(report, "Lift @ T", "lift_at_t", None, digits=2),
        _render_sentence_table(report, "Average precision", "ap", None),
        _render_word_table(report),
        _render_precision_table(report),
        _render_flag_table(report),
        *(_render_noise_table(run) for run in report.batch_runs),
    ]
    if report.against is not None:
        parts.append(render_comparison(report))
    return "\n\n".join(parts) + "\n"


def render_headline(report: EvaluationReport) -> str:
    """The two scores that matter, in one small table."""
    rows = [
        [
            result.method,
            str(result.classes),
            result.mode,
            *(_format_cell(result, name, 4) for name in ("auprc", "ap", "auroc")),
        ]
        for result in report.results
        if result.level == SENTENCE and (result.method, result.token_score) in COMPARED_METHODS
    ]
    return _render_table(["sentence score", "classes", "mode", "AUPRC", "AP", "AUROC"], rows)


def render_comparison(report: EvaluationReport) -> str:
    """Paired differences against other probabilities of the same sentences."""
    head = ["score", "classes", "mode", "figure", report.data.name, report.against or "", "difference", "ahead in"]
    rows = [
        [
            row.method,
            str(row.classes),
            row.mode,
            row.metric.upper(),
            _format_number(row.ours),
            _format_number(row.other),
            _format_number(row.difference.difference, sign=True)
            + _format_interval(row.difference.low, row.difference.high, sign=True),
            "" if math.isnan(row.difference.better) else f"{row.difference.better:.0%}",
        ]
        for row in report.comparisons
    ]
    note = f"Paired bootstrap: both rankings on the same {report.resamples} resamples; `ahead in` is the share won."
    return f"## {report.data.name} against {report.against}\n\n{_render_table(head, rows)}\n\n{note}"


def _render_summary(report: EvaluationReport) -> str:
    data = report.data
    lines = [
        f"{int(data.keep.sum())} of {data.flat.n_sentences} sentences kept, {len(report.batch_runs[0].variant.flat.given)} words.",
    ]
    for run in report.batch_runs:
        variant = run.variant
        lines.append(
            f"{len(variant.classes)} classes ({variant.name}): {int(variant.wrong_sentences.sum())} sentences with "
            f"{int(variant.wrong_words.sum())} wrong words."
        )
    if report.f1 is not None:
        figures = ", ".join(f"{f1.f1:.4f} against {name} labels" for name, f1 in report.f1.items())
        lines.append(f"Entity F1 of the model: {figures}.")
    if report.resamples:
        lines.append(
            f"In brackets: {CONFIDENCE_LEVEL:.0%} intervals from {report.resamples} bootstrap resamples (seed {report.seed})."
        )
    modes = {run.mode for run in report.runs}
    lines += [text for key, text in NOTES.items() if key not in {"batch", "stream"} or key in modes]
    return "\n".join(f"- {line}" for line in lines)


def _list_columns(report: EvaluationReport) -> list[tuple[str, str, str]]:
    return [(f"{len(run.variant.classes)} classes, {run.mode}", run.variant.name, run.mode) for run in report.runs]


def _render_sentence_table(
    report: EvaluationReport,
    title: str,
    metric: str,
    published: Callable[[paper.PaperRow], tuple[float, float, float]] | None,
    *,
    digits: int = 4,
) -> str:
    columns = _list_columns(report)
    found = {(r.method, r.token_score, r.variant, r.mode): r for r in report.results if r.level == SENTENCE}
    best = {
        (variant, mode): max(
            (r.metrics[metric] for r in found.values() if (r.variant, r.mode) == (variant, mode)),
            key=lambda value: -math.inf if math.isnan(value) else value,
        )
        for _, variant, mode in columns
    }
    rows = []
    for method, token_score in dict.fromkeys((key[0], key[1]) for key in found):
        row = [method, token_score or ""]
        for _, variant, mode in columns:
            result = found[method, token_score, variant, mode]
            row.append(_format_cell(result, metric, digits, strong=result.metrics[metric] == best[variant, mode]))
        if published is not None:
            printed = paper.SENTENCE_FIGURES.get((method, token_score))
            row += ["", "", ""] if printed is None else [f"{value:.{digits}f}" for value in published(printed)]
        rows.append(row)
    head = ["sentence score", "token score", *(name for name, _, _ in columns)]
    if published is not None:
        head += [f"paper: {name}" for name in paper.SETTINGS]
    return f"## {title}\n\n{_render_table(head, rows)}"


def _render_word_table(report: EvaluationReport) -> str:
    head = [
        "word score",
        "classes",
        "mode",
        "AUPRC",
        "AP",
        "AUROC",
        "lift @ T",
        "lift @ T + 1",
        "paper AUPRC",
        "paper AUROC",
    ]
    rows = []
    for result in report.results:
        if result.level != TOKEN:
            continue
        figures = [_format_cell(result, "auprc", 4), _format_cell(result, "ap", 4), _format_cell(result, "auroc", 4)]
        lifts = [_format_cell(result, "lift_at_t", 2), _format_cell(result, "lift_at_t1", 2)]
        printed = (
            paper.TOKEN_FIGURES.get(result.method) if result.variant == UNMERGED and result.mode == BATCH else None
        )
        beside = ["", ""] if printed is None else [f"{value:.4f}" for value in printed]
        rows.append([result.method, str(result.classes), result.mode, *figures, *lifts, *beside])
    return f"## Single words\n\nThe paper's figures are those of bert-unmerged.\n\n{_render_table(head, rows)}"


def _render_precision_table(report: EvaluationReport) -> str:
    """Precision@K of the methods that read self-confidence or nothing; the rest is in evaluation.json."""
    ks = sorted({k for result in report.results if result.level == SENTENCE for k in result.precision_at})
    rows = [
        [
            result.method,
            str(result.classes),
            result.mode,
            *(_format_number(result.precision_at[k], digits=3) for k in ks),
        ]
        for result in report.results
        if result.level == SENTENCE and result.token_score in {None, paper.SC}
    ]
    head = ["sentence score", "classes", "mode", *(f"@{k}" for k in ks)]
    return f"## Precision @ K (token score: {paper.SC})\n\n{_render_table(head, rows)}"


def _render_flag_table(report: EvaluationReport) -> str:
    rows = [
        [
            str(row.classes),
            row.mode,
            row.rule,
            str(row.words),
            *(_format_number(value, digits=3) for value in (row.rate, row.precision, row.recall)),
        ]
        for row in report.flags
    ]
    head = ["classes", "mode", "rule", "flagged words", "sentences flagged", "precision", "recall"]
    return f"## Flags, by sentences\n\n{_render_table(head, rows)}"


def _render_noise_table(run: EvaluationRun) -> str:
    classes = run.variant.classes
    counts = compute_noise_matrix(run.variant.flat.given, run.variant.corrected, len(classes))
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [
        [name, *("–" if i == j else f"{share[i, j]:.2%}" if counts[i, j] else "" for j in range(len(classes)))]
        for i, name in enumerate(classes)
    ]
    title = f"Noise matrix, {len(classes)} classes"
    return (
        f"## {title}\n\nRows: the truth. Columns: the label given instead, in percent of the row.\n\n"
        + _render_table(["truth", *classes], rows)
    )


def _format_cell(result: EvaluationResult, metric: str, digits: int, *, strong: bool = False) -> str:
    value = _format_number(result.metrics[metric], digits=digits)
    interval = result.intervals.get(metric)
    end = "" if interval is None else _format_interval(*interval, digits=max(digits - 1, 1))
    return (f"**{value}**" if strong else value) + end


def _format_number(value: float, *, digits: int = 4, sign: bool = False) -> str:
    return "–" if math.isnan(value) else f"{value:{'+' if sign else ''}.{digits}f}"


def _format_interval(low: float, high: float, *, digits: int = 3, sign: bool = False) -> str:
    if math.isnan(low):
        return ""
    return f" [{_format_number(low, digits=digits, sign=sign)}, {_format_number(high, digits=digits, sign=sign)}]"


def _render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
