"""What a training process writes to its standard output: one JSON object per line."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from service.contracts import Message, ModelComparison, TrainedType, TrainingProgress


class ProgressMessage(Message):
    kind: Literal["progress"] = "progress"
    progress: TrainingProgress


class TrainedMessage(Message):
    """The model is in the registry. `comparison` is None if there is no model in use to compare with."""

    kind: Literal["trained"] = "trained"
    fingerprint: str
    scheme: str  # of the dataset's labels
    sentences: int
    words: int
    f1: float
    f1_by_fold: tuple[float, ...]
    types: tuple[TrainedType, ...]
    untrained_types: tuple[str, ...]
    comparison: ModelComparison | None = None
    is_worse: bool = False


class RefusedMessage(Message):
    """The data can't be trained on."""

    kind: Literal["refused"] = "refused"
    reason: str


class FailedMessage(Message):
    """Anything else. The same training may succeed later."""

    kind: Literal["failed"] = "failed"
    reason: str


OutcomeMessage = TrainedMessage | RefusedMessage | FailedMessage
TrainingMessage = Annotated[ProgressMessage | OutcomeMessage, Field(discriminator="kind")]
TRAINING_MESSAGE: TypeAdapter[ProgressMessage | OutcomeMessage] = TypeAdapter(TrainingMessage)
