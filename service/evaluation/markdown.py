"""An evaluation as Markdown: tables in the paper's shape, with the published values beside ours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from service.evaluation import paper
from service.evaluation.data import UNMERGED
from service.evaluation.metrics import CONFIDENCE_LEVEL, compute_noise_matrix
from service.evaluation.report import NOTES, EvaluationReport, count_agreed
from service.evaluation.runs import BATCH, NO_MEMORY, EvaluationRun
from service.evaluation.tables import COMPARED_METHODS, SENTENCE, TOKEN, EvaluationResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONDITIONAL_NOTES: Final = {"batch", "stream", "memory", "agreed"}
HEADLINE: Final = ["sentence score", "classes", "mode", "AUPRC", "AP", "AUROC"]


def render_markdown(report: EvaluationReport) -> str:
    """The paper's three tables, and those for words, flags and noise."""
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
    if report.agreed:
        parts.append(_render_agreed_table(report))
    if report.against is not None:
        parts.append(render_comparison(report))
    return "\n\n".join(parts) + "\n"


def render_headline(report: EvaluationReport) -> str:
    """A small table of worst-token and priority."""
    rows = [
        _list_headline_cells(result)
        for result in report.results
        if result.level == SENTENCE and (result.method, result.token_score) in COMPARED_METHODS
    ]
    return _render_table(HEADLINE, rows)


def _list_headline_cells(result: EvaluationResult) -> list[str]:
    metrics = (_format_cell(result, name, 4) for name in ("auprc", "ap", "auroc"))
    return [_name_method(result), str(result.classes), result.mode, *metrics]


def _name_method(result: EvaluationResult) -> str:
    return result.method if result.memory in {None, NO_MEMORY} else f"{result.method}, memory {result.memory}"


def _render_agreed_table(report: EvaluationReport) -> str:
    counts = "; ".join(f"{len(run.variant.classes)} classes: {count_agreed(run)}" for run in report.batch_runs)
    table = _render_table(HEADLINE, [_list_headline_cells(result) for result in report.agreed])
    return f"## Sentences on which both corrections agree\n\n{counts} sentences.\n\n{table}"


def render_comparison(report: EvaluationReport) -> str:
    """Paired differences to other probabilities of the same sentences."""
    head = ["score", "classes", "mode", "metric", report.data.name, report.against or "", "difference", "ahead in"]
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
        scores = ", ".join(f"{f1.f1:.4f} against {name} labels" for name, f1 in report.f1.items())
        lines.append(f"Entity F1 of the model: {scores}.")
    if report.resamples:
        lines.append(
            f"In brackets: {CONFIDENCE_LEVEL:.0%} intervals from {report.resamples} bootstrap resamples (seed {report.seed})."
        )
    applying = {run.mode for run in report.runs}
    applying |= {"memory"} if any(run.memory_priority is not None for run in report.runs) else set()
    applying |= {"agreed"} if report.agreed else set()
    lines += [text for key, text in NOTES.items() if key not in CONDITIONAL_NOTES or key in applying]
    return "\n".join(f"- {line}" for line in lines)


def _list_columns(report: EvaluationReport) -> list[tuple[str, str, str]]:
    return [(f"{len(run.variant.classes)} classes, {run.mode}", run.variant.name, run.mode) for run in report.runs]


def _render_sentence_table(
    report: EvaluationReport,
    title: str,
    metric: str,
    select_metric: Callable[[paper.PaperRow], tuple[float, float, float]] | None,
    *,
    digits: int = 4,
) -> str:
    columns = _list_columns(report)
    results = {(_name_method(r), r.token_score, r.variant, r.mode): r for r in report.results if r.level == SENTENCE}
    best = {
        (variant, mode): max(
            (r.metrics[metric] for r in results.values() if (r.variant, r.mode) == (variant, mode)),
            key=lambda value: -math.inf if math.isnan(value) else value,
        )
        for _, variant, mode in columns
    }
    rows = []
    for method, token_score in dict.fromkeys((key[0], key[1]) for key in results):
        row = [method, token_score or ""]
        for _, variant, mode in columns:
            result = results.get((method, token_score, variant, mode))  # only a stream has memory
            strong = result is not None and result.metrics[metric] == best[variant, mode]
            row.append("" if result is None else _format_cell(result, metric, digits, strong=strong))
        if select_metric is not None:
            paper_row = paper.SENTENCE_METRICS.get((method, token_score))
            row += ["", "", ""] if paper_row is None else [f"{value:.{digits}f}" for value in select_metric(paper_row)]
        rows.append(row)
    head = ["sentence score", "token score", *(name for name, _, _ in columns)]
    if select_metric is not None:
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
        metrics = [_format_cell(result, "auprc", 4), _format_cell(result, "ap", 4), _format_cell(result, "auroc", 4)]
        lifts = [_format_cell(result, "lift_at_t", 2), _format_cell(result, "lift_at_t1", 2)]
        published = (
            paper.TOKEN_METRICS.get(result.method) if result.variant == UNMERGED and result.mode == BATCH else None
        )
        paper_cells = ["", ""] if published is None else [f"{value:.4f}" for value in published]
        rows.append([_name_method(result), str(result.classes), result.mode, *metrics, *lifts, *paper_cells])
    return f"## Single words\n\nThe paper's values are those of bert-unmerged.\n\n{_render_table(head, rows)}"


def _render_precision_table(report: EvaluationReport) -> str:
    """Precision@K of the methods that use self-confidence or no token score. evaluation.json has the others."""
    ks = sorted({k for result in report.results if result.level == SENTENCE for k in result.precision_at})
    rows = [
        [
            _name_method(result),
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
    suffix = "" if interval is None else _format_interval(*interval, digits=max(digits - 1, 1))
    return (f"**{value}**" if strong else value) + suffix


def _format_number(value: float, *, digits: int = 4, sign: bool = False) -> str:
    return "–" if math.isnan(value) else f"{value:{'+' if sign else ''}.{digits}f}"


def _format_interval(low: float, high: float, *, digits: int = 3, sign: bool = False) -> str:
    if math.isnan(low):
        return ""
    return f" [{_format_number(low, digits=digits, sign=sign)}, {_format_number(high, digits=digits, sign=sign)}]"


def _render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
