"""Curves of precision over recall and of precision at K. Imports matplotlib only when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from service.errors import SettingsError
from service.evaluation.ranking import build_ranking
from service.evaluation.runs import PRIORITY, EvaluationRun
from service.scoring.token import DEFAULT_TOKEN_SCORE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

DRAWN_METHODS: Final[tuple[tuple[str, str | None], ...]] = (
    (PRIORITY, None),
    ("worst-token", DEFAULT_TOKEN_SCORE),
    ("bad-token-counts-min", DEFAULT_TOKEN_SCORE),
    ("expected-alt", DEFAULT_TOKEN_SCORE),
    ("average-quality", DEFAULT_TOKEN_SCORE),
)
"""Our priority, the paper's choice, and three other methods."""

COLOURS: Final = ("#c0392b", "#1f4e79", "#7f8c8d", "#b8860b", "#5b8c5a")


def compute_precision_recall(
    scores: NDArray[np.float64], positives: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], ...]:
    """Recall and precision after each rank. Tied rows share their positives evenly."""
    ranking = build_ranking(scores, positives)
    sizes = np.diff(ranking.group_ends, prepend=0)
    hits = np.add.reduceat(positives[ranking.order].astype(np.float64), ranking.group_ends - sizes)
    cumulative_hits = np.cumsum(np.repeat(hits / sizes, sizes))
    return cumulative_hits / max(int(positives.sum()), 1), cumulative_hits / np.arange(1, len(scores) + 1)


def draw_curves(runs: Sequence[EvaluationRun], folder: Path) -> list[Path]:
    """Writes `precision_recall.png` and `precision_at_k.png`, with a panel for each variant and mode."""
    canvas, figure = _load_matplotlib()
    columns = min(len(runs), 2)
    rows = -(-len(runs) // columns)
    written = []
    for name, draw_panel in (
        ("precision_recall.png", _draw_recall_panel),
        ("precision_at_k.png", _draw_precision_at_k_panel),
    ):
        picture = figure(figsize=(6 * columns, 4.4 * rows), layout="constrained")
        canvas(picture)
        axes = picture.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for axis, run in zip(axes, runs, strict=False):
            draw_panel(axis, run)
            axis.set_title(f"{len(run.variant.classes)} classes, {run.mode}")
            axis.set_ylabel("precision")
            axis.set_ylim(0, 1.02)
            axis.grid(alpha=0.3)
        for unused in axes[len(runs) :]:
            unused.remove()
        axes[0].legend(fontsize="small")
        picture.savefig(folder / name, dpi=110)
        written.append(folder / name)
    return written


def _compute_curves(run: EvaluationRun) -> list[tuple[str, str, NDArray[np.float64], NDArray[np.float64]]]:
    positives = run.variant.wrong_sentences
    curves = []
    for (method, token_score), colour in zip(DRAWN_METHODS, COLOURS, strict=True):
        recall, precision = compute_precision_recall(run.compute_sentence_scores(method, token_score), positives)
        curves.append((method, colour, recall, precision))
    return curves


def _draw_recall_panel(axis: Any, run: EvaluationRun) -> None:  # noqa: ANN401 - matplotlib has no types here
    for method, colour, recall, precision in _compute_curves(run):
        axis.plot(recall, precision, color=colour, label=method, linewidth=1.4)
    axis.set_xlabel("recall")
    axis.set_xlim(0, 1)


def _draw_precision_at_k_panel(axis: Any, run: EvaluationRun) -> None:  # noqa: ANN401 - matplotlib has no types here
    wrong = int(run.variant.wrong_sentences.sum())
    last = min(run.variant.flat.n_sentences, max(50, 3 * wrong))
    for method, colour, _, precision in _compute_curves(run):
        axis.plot(np.arange(1, last + 1), precision[:last], color=colour, label=method, linewidth=1.4)
    axis.axvline(wrong, color="black", linewidth=0.8, linestyle=":")
    axis.set_xlabel("K (dotted: number of wrong sentences)")
    axis.set_xlim(1, last)


def _load_matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise SettingsError("curves need matplotlib: pip install 'labelwatch[plots]'") from error
    return FigureCanvasAgg, Figure
