"""The wire messages. The JSON schemas in `schemas/` are generated from them."""

from __future__ import annotations

from service.contracts.assessment import (
    Assessment,
    Because,
    EntitySpan,
    Flag,
    ModelName,
    Position,
    SuspectSpan,
    WordScore,
)
from service.contracts.base import DATASET_NAME_RULE, DatasetName, Message, is_dataset_name
from service.contracts.datasets.flag_policies import (
    FLAG_POLICIES,
    BelowPolicy,
    BudgetPolicy,
    ConfidentPolicy,
    FlagPolicy,
    ScoredSentence,
    describe_flag_policies,
)
from service.contracts.datasets.settings import DatasetSettings
from service.contracts.datasets.training import (
    DatasetModels,
    ModelComparison,
    TrainedType,
    Training,
    TrainingProgress,
    TrainingRequest,
)
from service.contracts.decision import BlindAnswer, Claim, Decision, Shown
from service.contracts.kinds import EvidenceKind, Reason, SuspectKind, Verdict
from service.contracts.platform_task import PlatformTask
from service.contracts.probabilities import WordProbabilities
from service.contracts.sentence import (
    MAX_BATCH_CHARS,
    MAX_DOCUMENT_CHARS,
    MAX_WORDS,
    NOT_AN_OBJECT,
    NOT_UNICODE,
    AnnotatedSentence,
    LabelledSentence,
    describe_label_mismatch,
    read_sentence,
)

__all__ = [
    "DATASET_NAME_RULE",
    "FLAG_POLICIES",
    "MAX_BATCH_CHARS",
    "MAX_DOCUMENT_CHARS",
    "MAX_WORDS",
    "NOT_AN_OBJECT",
    "NOT_UNICODE",
    "AnnotatedSentence",
    "Assessment",
    "Because",
    "BelowPolicy",
    "BlindAnswer",
    "BudgetPolicy",
    "Claim",
    "ConfidentPolicy",
    "DatasetModels",
    "DatasetName",
    "DatasetSettings",
    "Decision",
    "EntitySpan",
    "EvidenceKind",
    "Flag",
    "FlagPolicy",
    "LabelledSentence",
    "Message",
    "ModelComparison",
    "ModelName",
    "PlatformTask",
    "Position",
    "Reason",
    "ScoredSentence",
    "Shown",
    "SuspectKind",
    "SuspectSpan",
    "TrainedType",
    "Training",
    "TrainingProgress",
    "TrainingRequest",
    "Verdict",
    "WordProbabilities",
    "WordScore",
    "describe_flag_policies",
    "describe_label_mismatch",
    "is_dataset_name",
    "read_sentence",
]
