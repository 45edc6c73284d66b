"""The thresholds that sentences of a dataset are judged with."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from service.api.dependencies import BackendDep, DatasetPath
from service.api.http.threads import run_in_thread
from service.api.routes.datasets.settings import PROBLEM_DESCRIPTION
from service.contracts import FlagPolicy, ModelName
from service.datasets.registry import check_dataset_exists
from service.datasets.threshold_view import build_threshold_view

router = APIRouter(tags=["datasets"])


class ClassThreshold(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    name: str
    own_words: int = Field(description="Words of the dataset that the threshold rests on")
    threshold: float | None = Field(description="Null if there is too little evidence: the class can't be suggested")
    prior: float | None = Field(description="The threshold before the first word of the dataset")
    warming_up: bool


class ThresholdsAt(BaseModel):
    at: datetime
    thresholds: dict[str, float | None]


class ArrivedOn(BaseModel):
    day: str = Field(description="UTC")
    sentences: int
    by_then: int


class Thresholds(BaseModel):
    """The thresholds that sentences of the dataset are judged with now."""

    dataset: str
    version: int
    epoch: int
    model: ModelName
    flag_policy: FlagPolicy
    cut: float | None = Field(description="Score or priority below which the policy sends a sentence to review")
    sentences: int = Field(description="Sentences that the statistics contain")
    classes: list[ClassThreshold]
    history: list[ThresholdsAt] = Field(
        description="The thresholds that the last sentence in review of each day (UTC) was judged with, oldest first"
    )
    days: list[ArrivedOn] = Field(
        default_factory=list,
        deprecated=True,
        description="Always empty. The metric labelwatch_assessed_sentences_total counts sentences over time",
    )
    problem: str | None = Field(default=None, description=PROBLEM_DESCRIPTION)


@router.get("/v1/datasets/{name}/thresholds", summary="Thresholds of a dataset")
async def thresholds(name: DatasetPath, backend: BackendDep) -> Thresholds:
    """The thresholds of each class now, what they rest on, and how they changed."""
    view = backend.state_view
    check_dataset_exists(name, view.list_names())
    history = await run_in_thread(backend.queue.list_threshold_points, name)
    context = view.get_context(name)
    current = build_threshold_view(context.judge, context.stats)
    return Thresholds(
        dataset=name,
        version=current.version,
        epoch=current.epoch,
        model=current.model,
        flag_policy=current.flag_policy,
        cut=current.cutoff,
        sentences=current.sentences,
        classes=[ClassThreshold.model_validate(threshold) for threshold in current.classes],
        history=[ThresholdsAt(at=point.at, thresholds=point.thresholds) for point in history],
        problem=view.refused_settings.get(name),
    )
