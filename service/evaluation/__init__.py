"""The paper's evaluation: how well scores and flags find labels that are known to be wrong."""

from __future__ import annotations

from service.evaluation.data import EvaluationData, read_evaluation_data
from service.evaluation.tables import EvaluationResult, evaluate

__all__ = ["EvaluationData", "EvaluationResult", "evaluate", "read_evaluation_data"]
