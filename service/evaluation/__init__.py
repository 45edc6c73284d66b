"""The paper's evaluation: how well scores and flags find labels that are known to be wrong."""

from __future__ import annotations

from service.evaluation.data import EvaluationData, data_from_npz
from service.evaluation.tables import EvaluationResult, evaluate

__all__ = ["EvaluationData", "EvaluationResult", "data_from_npz", "evaluate"]
