"""Trainings of a dataset's model by the trainer: the records of the models topic."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from service.contracts.base import DatasetName, Message

TrainingResult = Literal["running", "used", "not_used", "refused", "failed", "stopped"]
TrainingStep = Literal["read", "encode", "fit", "compare"]


class TrainedType(Message):
    """How well an entity type is found in sentences that the model did not see, against the given labels."""

    name: str
    examples: int
    precision: float
    recall: float
    f1: float


class TrainingProgress(Message):
    """How far a running training is."""

    step: TrainingStep
    done: int = 0
    total: int = 0


class ModelComparison(Message):
    """The new model and the one in use, on the same sentences. Each judges with heads that did not see the sentence."""

    model: str = Field(description="The model that was in use")
    f1: float = Field(description="F1 of the model that was in use")
    difference: float = Field(description="Mean over the folds of the new F1 minus the old")
    standard_error: float = Field(description="Standard error of the difference, from the folds")


class TrainingRequest(Message):
    """A request to train the model of a dataset now, whatever its schedule says. A trainer takes it once."""

    dataset: DatasetName
    id: str = Field(min_length=1, max_length=128, description="The training that takes the request names it")
    requested_at: datetime


class Training(Message):
    """One training: what it was trained on, how good the model is, and whether the dataset uses it.

    used: it is the dataset's model since `ended_at`. not_used: another model stays in use, and `reason` says why.
    refused: the data can't be trained on. failed: the training did not end; it is tried again. stopped: the trainer was.
    """

    dataset: DatasetName
    model: str = Field(description="Name of the model in the registry")
    result: TrainingResult
    reason: str | None = Field(default=None, description="Why the result is not `used`")
    started_at: datetime
    ended_at: datetime | None = None
    arrived: int = Field(description="Sentences of the dataset that had arrived when it started, judged or waiting")
    progress: TrainingProgress | None = Field(default=None, description="Only while it is running")
    sentences: int | None = Field(default=None, description="Sentences it was trained on")
    words: int | None = None
    fingerprint: str | None = Field(default=None, description="Fingerprint of the trained model")
    f1: float | None = Field(default=None, description="F1 over all types, against the given labels")
    f1_by_fold: tuple[float, ...] = ()
    types: tuple[TrainedType, ...] = ()
    untrained_types: tuple[str, ...] = Field(default=(), description="Types with too few examples: they are not judged")
    comparison: ModelComparison | None = None
    request: str | None = Field(default=None, description="Id of the request that it took, if somebody requested it")


class DatasetModels(Message):
    """Which model a dataset uses, when the next one is trained, and what came of earlier trainings."""

    dataset: DatasetName
    model: str | None = Field(description="The model of its settings; null: the default model of the service")
    used_since: datetime | None = Field(default=None, description="Since when, if the trainer made the model")
    auto_train: bool = Field(description="Whether the trainer takes care of the dataset")
    waiting: int = Field(description="Sentences that are stored because no model fits them")
    arrived: int = Field(description="Sentences that have arrived, judged or waiting")
    due_at: int = Field(description="The number of arrived sentences at which the next training is due")
    requested_at: datetime | None = Field(
        default=None, description="When a training was requested that no trainer has taken yet"
    )
    trainings: tuple[Training, ...] = Field(description="The newest first")
