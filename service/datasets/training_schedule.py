"""When a dataset's model is trained: rules over the trainings so far. PURE."""

from __future__ import annotations

from datetime import timedelta
from itertools import takewhile
from math import ceil
from typing import TYPE_CHECKING, Final

from service.contracts import DatasetModels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from service.contracts import DatasetSettings, Training, TrainingRequest

GROWTH: Final = 1.5
MIN_RETRY_INTERVAL: Final = timedelta(minutes=10)
MAX_RETRY_INTERVAL: Final = timedelta(days=1)


def wants_training(settings: DatasetSettings, trainings: Sequence[Training], *, waiting: int, default: bool) -> bool:
    """Whether the trainer takes care of the dataset.

    A dataset that does not say so itself is trained if `default` is true and no model fits its labels (then its sentences
    wait), or if its model is one that the trainer made.
    """
    if settings.auto_train is not None:
        return settings.auto_train
    return default and (waiting > 0 or is_trainers_model(settings.model, trainings))


def is_trainers_model(model: str | None, trainings: Sequence[Training]) -> bool:
    return any(training.model == model for training in trainings if training.result == "used")


def compute_due_at(trainings: Sequence[Training], *, min_sentences: int) -> int:
    """The number of arrived sentences at which the next training is due: the first time `min_sentences`, then half more.

    `trainings` have the newest first. One that was refused counts: the same data would be refused again.
    """
    for training in trainings:
        if training.result in ("used", "not_used", "refused"):
            return max(min_sentences, ceil(training.arrived * GROWTH))
    return min_sentences


def compute_retry_at(trainings: Sequence[Training]) -> datetime | None:
    """The time before which nothing is trained, because the last trainings failed; None if the last did not."""
    failures = list(takewhile(lambda training: training.result == "failed", trainings))
    if not failures:
        return None
    interval = min(MIN_RETRY_INTERVAL * (1 << min(len(failures) - 1, 20)), MAX_RETRY_INTERVAL)
    return (failures[0].ended_at or failures[0].started_at) + interval


def is_due(trainings: Sequence[Training], *, arrived: int, min_sentences: int, now: datetime) -> bool:
    retry_at = compute_retry_at(trainings)
    return arrived >= compute_due_at(trainings, min_sentences=min_sentences) and (retry_at is None or now >= retry_at)


def build_dataset_models(
    settings: DatasetSettings,
    trainings: Sequence[Training],
    *,
    waiting: int,
    arrived: int,
    min_sentences: int,
    default: bool,
    request: TrainingRequest | None = None,
) -> DatasetModels:
    """The trainings of a dataset, for REST and the command line. `trainings` have the newest first."""
    used = [training for training in trainings if training.result == "used" and training.model == settings.model]
    return DatasetModels(
        dataset=settings.name,
        model=settings.model,
        used_since=used[0].ended_at if used else None,
        auto_train=wants_training(settings, trainings, waiting=waiting, default=default),
        waiting=waiting,
        arrived=arrived,
        due_at=compute_due_at(trainings, min_sentences=min_sentences),
        requested_at=None if request is None else request.requested_at,
        trainings=tuple(trainings),
    )
