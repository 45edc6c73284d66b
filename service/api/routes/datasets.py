"""How each dataset is judged, and what the stream has learned of it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel, Field

from service.api.backend import Backend, get_request_id
from service.api.dependencies import BackendDep, DatasetPath
from service.api.http.bodies import read_json_object
from service.api.http.problems import ConflictError, NotFoundError, PreconditionFailedError
from service.contracts import DatasetSettings, FlagPolicy, ModelName
from service.datasets.changes import merge_settings, validate_settings
from service.datasets.registry import build_settings_message
from service.log.protocol import VersionConflict

router = APIRouter(tags=["datasets"])

VISIBLE_TIMEOUT_S = 5.0
VISIBLE_POLL_INTERVAL_S = 0.02
EXAMPLE = {"control_share": 0.01, "label_map": {"PERSON": "PER"}, "flag_policy": {"kind": "confident"}}

IfMatchHeader = Annotated[str | None, Header(description="The version to change, as `ETag` told it")]
CONCURRENT_CHANGE = "somebody else has changed the settings in the same moment: read them again"
PROBLEM_DESCRIPTION = "Why newer settings are not in force"


class DatasetSummary(BaseModel):
    name: str
    version: int = Field(description="Of its settings; 0: the default ones")
    epoch: int
    sentences: int = Field(description="Learned from")
    problem: str | None = Field(default=None, description=PROBLEM_DESCRIPTION)


class DatasetList(BaseModel):
    datasets: list[DatasetSummary]


class ClassThreshold(BaseModel):
    name: str
    own_words: int = Field(description="Learned from")
    threshold: float | None = Field(description="None: too little evidence, so that it can't be suggested")
    prior: float | None = Field(description="The threshold before any own word")
    warming_up: bool


class ThresholdsAt(BaseModel):
    at: datetime
    thresholds: dict[str, float | None]


class ArrivedOn(BaseModel):
    day: str = Field(description="UTC")
    sentences: int = Field(description="Learned on this day, while this instance followed")
    by_then: int = Field(description="Found learned when this instance started: on this day or before it")


class Thresholds(BaseModel):
    """What sentences of the dataset are judged with now."""

    dataset: str
    version: int
    epoch: int
    model: ModelName
    flag_policy: FlagPolicy
    cut: float | None = Field(description="Score or priority under which the policy sends a sentence to review")
    sentences: int = Field(description="Learned from")
    classes: list[ClassThreshold]
    history: list[ThresholdsAt] = Field(
        description="As this instance has seen them move since it started, oldest first"
    )
    days: list[ArrivedOn] = Field(
        description="Sentences by the day they came, as this instance has seen them since it started"
    )
    problem: str | None = Field(default=None, description=PROBLEM_DESCRIPTION)


@router.get("/v1/datasets", summary="All datasets")
async def datasets(backend: BackendDep) -> DatasetList:
    """Those that are set up, and those that sentences came of."""
    mirror = backend.state_view
    refused = mirror.refused_settings
    found = []
    for name in mirror.list_names():
        settings = mirror.get_settings(name)
        found.append(
            DatasetSummary(
                name=name,
                version=settings.version,
                epoch=settings.epoch,
                sentences=mirror.get_stats(name).histogram.total,
                problem=refused.get(name),
            )
        )
    return DatasetList(datasets=found)


@router.get("/v1/datasets/{name}", summary="Settings of a dataset")
async def dataset(name: DatasetPath, backend: BackendDep, response: Response) -> DatasetSettings:
    """The settings in force. `ETag` is their version."""
    _check_exists(backend, name)
    settings = backend.state_view.get_settings(name)
    response.headers["ETag"] = f'"{settings.version}"'
    return settings


@router.put(
    "/v1/datasets/{name}",
    summary="Replace all settings of a dataset",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/DatasetSettings"},
                    "examples": {"some": {"summary": "A label map and a control sample", "value": EXAMPLE}},
                }
            },
        }
    },
)
async def put_dataset(
    name: DatasetPath, request: Request, response: Response, backend: BackendDep, if_match: IfMatchHeader = None
) -> DatasetSettings:
    """Replaces ALL settings: what is left out goes back to its default, a `label_map` too. To change some, use PATCH.

    Only `epoch` and `ranker_epoch` stay where they are left out.

    They are checked against the model first. A `version` in the body must be the one in force, as with `If-Match`.
    Of several changes at once one is made; the others are answered 409, or 412 where they named a version.
    Every process follows; sentences name the version they were judged with.
    """
    return await _change_settings(request, response, backend, name, if_match=if_match, partial=False)


@router.patch(
    "/v1/datasets/{name}",
    summary="Change some settings",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"type": "object", "description": "Some of the fields of DatasetSettings"},
                    "examples": {"one": {"summary": "The control sample alone", "value": {"control_share": 0.01}}},
                }
            },
        }
    },
)
async def patch_dataset(
    name: DatasetPath, request: Request, response: Response, backend: BackendDep, if_match: IfMatchHeader = None
) -> DatasetSettings:
    """Changes what is named, as `labelwatch datasets set` does; what is left out stays as it is.

    `label_map` and `flag_policy` are merged by their own fields; a `flag_policy` of another `kind` replaces the one
    before. null takes a field, or an entry of `label_map`, back to the default. Checked, versioned and guarded as by
    PUT.
    """
    return await _change_settings(request, response, backend, name, if_match=if_match, partial=True)


async def _change_settings(
    request: Request,
    response: Response,
    backend: Backend,
    name: str,
    *,
    if_match: str | None,
    partial: bool,
) -> DatasetSettings:
    body = await read_json_object(request)
    lock: asyncio.Lock = request.app.state.writing
    async with lock:
        before, latest = backend.state_view.settings_for_update(name)
        asked, foreign = merge_settings(before, latest, body) if partial else (body, {})
        # One that is not in force, since it does not fit our model, may be in another process: ours must be newer.
        settings = validate_settings(
            backend.state_view, before, asked, if_match, version=max(before.version, latest.version) + 1
        )
        record = build_settings_message(
            backend.topics.datasets,
            foreign | settings.model_dump(mode="json"),
            at=datetime.now(UTC),
            request_id=get_request_id(request),
        )
        try:
            await backend.appender.append_if_unchanged(record, latest.position)
        except VersionConflict as error:
            conditional = if_match is not None or "version" in body
            raise (PreconditionFailedError if conditional else ConflictError)(CONCURRENT_CHANGE) from error
        await _wait_until_visible(backend, settings)
    response.headers["ETag"] = f'"{settings.version}"'
    return settings


def _check_exists(backend: Backend, name: str) -> None:
    names = backend.state_view.list_names()
    if name not in names:
        shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "") if names else "none yet"
        raise NotFoundError(f"the dataset {name!r} is not known: the datasets are {shown}", field="name")


async def _wait_until_visible(backend: Backend, settings: DatasetSettings) -> None:
    """Who has changed settings finds them changed; where the log is slow, a little later."""
    until = asyncio.get_running_loop().time() + VISIBLE_TIMEOUT_S
    while backend.state_view.settings_for_update(settings.name)[1].version < settings.version:
        if asyncio.get_running_loop().time() >= until:
            return
        await asyncio.sleep(VISIBLE_POLL_INTERVAL_S)


@router.get("/v1/datasets/{name}/thresholds", summary="What was learned")
async def thresholds(name: DatasetPath, backend: BackendDep) -> Thresholds:
    """The thresholds of each class now, what they rest on, and how they have moved."""
    _check_exists(backend, name)
    mirror = backend.state_view
    judge, stats = mirror.get_judge(name), mirror.get_stats(name)
    now, before = mirror.get_threshold_set(name), judge.build_threshold_set(judge.create_empty_stats())
    settings, folder = judge.settings, backend.classifier.folder
    words = stats.get_total(settings.forget_after_days).counts
    return Thresholds(
        dataset=name,
        version=settings.version,
        epoch=settings.epoch,
        model=ModelName(name=folder.name, fingerprint=folder.fingerprint),
        flag_policy=settings.flag_policy,
        cut=now.flag_cutoff,
        sentences=stats.histogram.total,
        classes=[
            ClassThreshold(
                name=label,
                own_words=count,
                threshold=now.by_class[label],
                prior=before.by_class[label],
                warming_up=label in now.warming_up,
            )
            for label, count in zip(judge.classes, words, strict=True)
        ],
        history=[
            ThresholdsAt(at=one.at, thresholds=dict(one.thresholds)) for one in mirror.list_threshold_points(name)
        ],
        days=[
            ArrivedOn(day=one.day, sentences=one.sentences, by_then=one.by_then) for one in mirror.list_arrivals(name)
        ],
        problem=mirror.refused_settings.get(name),
    )
