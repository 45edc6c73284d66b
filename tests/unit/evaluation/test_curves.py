"""Curves, and the error without matplotlib."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from service.errors import SettingsError
from service.evaluation import curves
from service.evaluation.tables import judge_all

if TYPE_CHECKING:
    from pathlib import Path

    from service.evaluation.data import EvaluationData

PNG = b"\x89PNG\r\n\x1a\n"


def test_precision_and_recall_after_each_rank() -> None:
    recall, precision = curves.compute_precision_recall(np.array([0.3, 0.1, 0.2]), np.array([True, True, False]))
    assert recall.tolist() == [0.5, 0.5, 1.0]
    assert precision == pytest.approx([1, 1 / 2, 2 / 3])


def test_tied_rows_share_their_positives() -> None:
    recall, precision = curves.compute_precision_recall(np.array([1.0, 1.0, 0.0]), np.array([True, False, False]))
    assert recall.tolist() == [0.0, 0.5, 1.0]
    assert precision == pytest.approx([0, 1 / 4, 1 / 3])


@pytest.mark.parametrize("classes", ["both", "merged"])
def test_pictures_are_written(data: EvaluationData, tmp_path: Path, classes: str) -> None:
    written = curves.draw_curves(judge_all(data, stream=classes == "both", classes=classes), tmp_path)
    assert [path.name for path in written] == ["precision_recall.png", "precision_at_k.png"]
    assert all(path.read_bytes().startswith(PNG) for path in written)


def test_five_methods_are_drawn_ours_and_the_papers_first(data: EvaluationData) -> None:
    (run,) = judge_all(data, stream=False, classes="merged")
    assert [name for name, *_ in curves._compute_curves(run)][:2] == ["priority", "worst-token"]
    assert len(curves.DRAWN_METHODS) == 5


def test_without_matplotlib_it_says_what_to_install(
    data: EvaluationData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r"pip install 'labelwatch\[plots\]'"):
        curves.draw_curves(judge_all(data, stream=False), tmp_path)
