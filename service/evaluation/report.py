"""An evaluation as one JSON document and as Markdown tables in the paper's shape."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from service.evaluation import paper
from service.evaluation.data import UNMERGED, EvaluationData
from service.evaluation.metrics import LEVEL, EntityF1, noise_matrix
from service.evaluation.runs import BATCH, Judged
from service.evaluation.tables import COMPARED, SENTENCE, TOKEN, Comparison, FlagFigures, Result, or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

VERSION: Final = 1
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
class Evaluation:
    """Everything one run of the command found."""

    data: EvaluationData
    judged: Sequence[Judged]
    results: Sequence[Result]
    flags: Sequence[FlagFigures]
    f1: dict[str, EntityF1] | None
    resamples: int
    seed: int
    against: str | None = None
    comparisons: Sequence[Comparison] = ()

    @property
    def batch(self) -> list[Judged]:
        """One for each variant."""
        return [run for run in self.judged if run.mode == BATCH]


def document(of: Evaluation) -> dict[str, object]:
    """What goes into evaluation.json."""
    found: dict[str, object] = {
        "version": VERSION,
        "data": _data(of),
        "f1": None if of.f1 is None else {name: _finite(f1._asdict()) for name, f1 in of.f1.items()},
        "bootstrap": {"resamples": of.resamples, "seed": of.seed, "level": LEVEL},
        "notes": NOTES,
        "results": [result.as_json() for result in of.results],
        "flags": [_finite(asdict(figures)) for figures in of.flags],
        "noise_matrix": {run.variant.name: _noise(run) for run in of.batch},
    }
    if of.against is not None:
        rows = [{**asdict(row), **row.difference._asdict()} for row in of.comparisons]
        found["against"] = {"name": of.against, "results": [_finite(row) for row in rows]}
    return found


def _finite(record: dict[str, object]) -> dict[str, object]:
    return {key: or_none(value) if isinstance(value, float) else value for key, value in record.items()}


def _data(of: Evaluation) -> dict[str, object]:
    return {
        "name": of.data.name,
        "sentences": of.data.flat.n_sentences,
        "kept_sentences": int(of.data.keep.sum()),
        "words": len(of.data.flat.given),
        "kept_words": len(of.batch[0].variant.flat.given),
        "labels": list(of.data.labels),
        "held_out_prior": bool(of.data.held_out),
        "variants": {
            run.variant.name: {
                "classes": list(run.variant.classes),
                "wrong_sentences": int(run.variant.wrong_sentences.sum()),
                "wrong_words": int(run.variant.wrong_words.sum()),
            }
            for run in of.batch
        },
    }


def _noise(run: Judged) -> dict[str, object]:
    counts = noise_matrix(run.variant.flat.given, run.variant.corrected, len(run.variant.classes))
    return {"classes": list(run.variant.classes), "rows": "truth", "columns": "given", "counts": counts.tolist()}


def render(of: Evaluation) -> str:
    """The paper's three tables and what belongs to them, as Markdown."""
    parts = [f"# Label errors found in {of.data.name}", _summary(of)]
    parts += [
        _sentences(of, "AUPRC", "auprc", lambda row: row.auprc),
        _sentences(of, "AUROC", "auroc", lambda row: row.auroc),
        _sentences(of, "Lift @ T + 1 (T: number of wrong sentences)", "lift_at_t1", lambda row: row.lift, digits=2),
        _sentences(of, "Lift @ T", "lift_at_t", None, digits=2),
        _sentences(of, "Average precision", "ap", None),
        _words(of),
        _precision(of),
        _flags(of),
        *(_noise_table(run) for run in of.batch),
    ]
    if of.against is not None:
        parts.append(render_comparison(of))
    return "\n\n".join(parts) + "\n"


def headline(of: Evaluation) -> str:
    """The two scores that matter, in one small table."""
    rows = [
        [
            result.method,
            str(result.classes),
            result.mode,
            *(_cell(result, name, 4) for name in ("auprc", "ap", "auroc")),
        ]
        for result in of.results
        if result.level == SENTENCE and (result.method, result.token_score) in COMPARED
    ]
    return _table(["sentence score", "classes", "mode", "AUPRC", "AP", "AUROC"], rows)


def render_comparison(of: Evaluation) -> str:
    """Paired differences against other probabilities of the same sentences."""
    head = ["score", "classes", "mode", "figure", of.data.name, of.against or "", "difference", "ahead in"]
    rows = [
        [
            row.method,
            str(row.classes),
            row.mode,
            row.metric.upper(),
            _number(row.ours),
            _number(row.other),
            _number(row.difference.difference, sign=True)
            + _bracket(row.difference.low, row.difference.high, sign=True),
            "" if math.isnan(row.difference.better) else f"{row.difference.better:.0%}",
        ]
        for row in of.comparisons
    ]
    note = f"Paired bootstrap: both rankings on the same {of.resamples} resamples; `ahead in` is the share won."
    return f"## {of.data.name} against {of.against}\n\n{_table(head, rows)}\n\n{note}"


def _summary(of: Evaluation) -> str:
    data = of.data
    lines = [
        f"{int(data.keep.sum())} of {data.flat.n_sentences} sentences kept, {len(of.batch[0].variant.flat.given)} words.",
    ]
    for run in of.batch:
        variant = run.variant
        lines.append(
            f"{len(variant.classes)} classes ({variant.name}): {int(variant.wrong_sentences.sum())} sentences with "
            f"{int(variant.wrong_words.sum())} wrong words."
        )
    if of.f1 is not None:
        figures = ", ".join(f"{f1.f1:.4f} against {name} labels" for name, f1 in of.f1.items())
        lines.append(f"Entity F1 of the model: {figures}.")
    if of.resamples:
        lines.append(f"In brackets: {LEVEL:.0%} intervals from {of.resamples} bootstrap resamples (seed {of.seed}).")
    modes = {run.mode for run in of.judged}
    lines += [text for key, text in NOTES.items() if key not in {"batch", "stream"} or key in modes]
    return "\n".join(f"- {line}" for line in lines)


def _columns(of: Evaluation) -> list[tuple[str, str, str]]:
    return [(f"{len(run.variant.classes)} classes, {run.mode}", run.variant.name, run.mode) for run in of.judged]


def _sentences(
    of: Evaluation,
    title: str,
    metric: str,
    published: Callable[[paper.Published], tuple[float, float, float]] | None,
    *,
    digits: int = 4,
) -> str:
    columns = _columns(of)
    found = {(r.method, r.token_score, r.variant, r.mode): r for r in of.results if r.level == SENTENCE}
    best = {
        (variant, mode): max(
            (r.figures[metric] for r in found.values() if (r.variant, r.mode) == (variant, mode)),
            key=lambda value: -math.inf if math.isnan(value) else value,
        )
        for _, variant, mode in columns
    }
    rows = []
    for method, token_score in dict.fromkeys((key[0], key[1]) for key in found):
        row = [method, token_score or ""]
        for _, variant, mode in columns:
            result = found[method, token_score, variant, mode]
            row.append(_cell(result, metric, digits, strong=result.figures[metric] == best[variant, mode]))
        if published is not None:
            printed = paper.SENTENCES.get((method, token_score))
            row += ["", "", ""] if printed is None else [f"{value:.{digits}f}" for value in published(printed)]
        rows.append(row)
    head = ["sentence score", "token score", *(name for name, _, _ in columns)]
    if published is not None:
        head += [f"paper: {name}" for name in paper.SETTINGS]
    return f"## {title}\n\n{_table(head, rows)}"


def _words(of: Evaluation) -> str:
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
    for result in of.results:
        if result.level != TOKEN:
            continue
        figures = [_cell(result, "auprc", 4), _cell(result, "ap", 4), _cell(result, "auroc", 4)]
        lifts = [_cell(result, "lift_at_t", 2), _cell(result, "lift_at_t1", 2)]
        printed = paper.TOKENS.get(result.method) if result.variant == UNMERGED and result.mode == BATCH else None
        beside = ["", ""] if printed is None else [f"{value:.4f}" for value in printed]
        rows.append([result.method, str(result.classes), result.mode, *figures, *lifts, *beside])
    return f"## Single words\n\nThe paper's figures are those of bert-unmerged.\n\n{_table(head, rows)}"


def _precision(of: Evaluation) -> str:
    """Precision@K of the methods that read self-confidence or nothing; the rest is in evaluation.json."""
    ks = sorted({k for result in of.results if result.level == SENTENCE for k in result.precision_at})
    rows = [
        [result.method, str(result.classes), result.mode, *(_number(result.precision_at[k], digits=3) for k in ks)]
        for result in of.results
        if result.level == SENTENCE and result.token_score in {None, paper.SC}
    ]
    head = ["sentence score", "classes", "mode", *(f"@{k}" for k in ks)]
    return f"## Precision @ K (token score: {paper.SC})\n\n{_table(head, rows)}"


def _flags(of: Evaluation) -> str:
    rows = [
        [
            str(row.classes),
            row.mode,
            row.rule,
            str(row.words),
            *(_number(value, digits=3) for value in (row.rate, row.precision, row.recall)),
        ]
        for row in of.flags
    ]
    head = ["classes", "mode", "rule", "flagged words", "sentences flagged", "precision", "recall"]
    return f"## Flags, by sentences\n\n{_table(head, rows)}"


def _noise_table(run: Judged) -> str:
    classes = run.variant.classes
    counts = noise_matrix(run.variant.flat.given, run.variant.corrected, len(classes))
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [
        [name, *("–" if i == j else f"{share[i, j]:.2%}" if counts[i, j] else "" for j in range(len(classes)))]
        for i, name in enumerate(classes)
    ]
    title = f"Noise matrix, {len(classes)} classes"
    return f"## {title}\n\nRows: the truth. Columns: the label given instead, in percent of the row.\n\n" + _table(
        ["truth", *classes], rows
    )


def _cell(result: Result, metric: str, digits: int, *, strong: bool = False) -> str:
    value = _number(result.figures[metric], digits=digits)
    interval = result.intervals.get(metric)
    end = "" if interval is None else _bracket(*interval, digits=max(digits - 1, 1))
    return (f"**{value}**" if strong else value) + end


def _number(value: float, *, digits: int = 4, sign: bool = False) -> str:
    return "–" if math.isnan(value) else f"{value:{'+' if sign else ''}.{digits}f}"


def _bracket(low: float, high: float, *, digits: int = 3, sign: bool = False) -> str:
    if math.isnan(low):
        return ""
    return f" [{_number(low, digits=digits, sign=sign)}, {_number(high, digits=digits, sign=sign)}]"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
