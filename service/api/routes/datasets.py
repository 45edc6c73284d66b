"""How each dataset is judged, and what the stream has learned of it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from pydantic import BaseModel, Field

from service.api.backend import Backend, backend_dependency, request_id_of
from service.api.http.bodies import json_object
from service.api.http.problems import ChangedError, ConflictError, NotFoundError
from service.contracts import DatasetName, DatasetSettings, FlagPolicy, ModelName
from service.datasets.changes import checked, merged
from service.datasets.registry import settings_record
from service.log.protocol import Overtaken

router = APIRouter(tags=["datasets"])

SEEN_WITHIN = 5.0
LOOK_EVERY = 0.02
EXAMPLE = {"control_share": 0.01, "label_map": {"PERSON": "PER"}, "flag_policy": {"kind": "confident"}}

At = Annotated[Backend, Depends(backend_dependency)]
Name = Annotated[DatasetName, Path(description="The dataset", examples=["default"])]
IfMatch = Annotated[str | None, Header(description="The version to change, as `ETag` told it")]
QUICKER = "somebody else has changed the settings in the same moment: read them again"
PROBLEM = "Why newer settings are not in force"


class DatasetSummary(BaseModel):
    name: str
    version: int = Field(description="Of its settings; 0: the default ones")
    epoch: int
    sentences: int = Field(description="Learned from")
    problem: str | None = Field(default=None, description=PROBLEM)


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
    problem: str | None = Field(default=None, description=PROBLEM)


@router.get("/v1/datasets", summary="All datasets")
async def datasets(backend: At) -> DatasetList:
    """Those that are set up, and those that sentences came of."""
    mirror = backend.mirror
    refused = mirror.refused
    found = []
    for name in mirror.names():
        settings = mirror.settings(name)
        found.append(
            DatasetSummary(
                name=name,
                version=settings.version,
                epoch=settings.epoch,
                sentences=mirror.stats(name).histogram.total,
                problem=refused.get(name),
            )
        )
    return DatasetList(datasets=found)


@router.get("/v1/datasets/{name}", summary="Settings of a dataset")
async def dataset(name: Name, backend: At, response: Response) -> DatasetSettings:
    """The settings in force. `ETag` is their version."""
    _known(backend, name)
    settings = backend.mirror.settings(name)
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
    name: Name, request: Request, response: Response, backend: At, if_match: IfMatch = None
) -> DatasetSettings:
    """Replaces ALL settings: what is left out goes back to its default, a `label_map` too. To change some, use PATCH.

    Only `epoch` and `ranker_epoch` stay where they are left out.

    They are checked against the model first. A `version` in the body must be the one in force, as with `If-Match`.
    Of several changes at once one is made; the others are answered 409, or 412 where they named a version.
    Every process follows; sentences name the version they were judged with.
    """
    return await _change(request, response, backend, name, if_match=if_match, in_part=False)


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
    name: Name, request: Request, response: Response, backend: At, if_match: IfMatch = None
) -> DatasetSettings:
    """Changes what is named, as `labelwatch datasets set` does; what is left out stays as it is.

    `label_map` and `flag_policy` are merged by their own fields; a `flag_policy` of another `kind` replaces the one
    before. null takes a field, or an entry of `label_map`, back to the default. Checked, versioned and guarded as by
    PUT.
    """
    return await _change(request, response, backend, name, if_match=if_match, in_part=True)


async def _change(
    request: Request,
    response: Response,
    backend: Backend,
    name: str,
    *,
    if_match: str | None,
    in_part: bool,
) -> DatasetSettings:
    body = await json_object(request)
    lock: asyncio.Lock = request.app.state.writing
    async with lock:
        before, latest = backend.mirror.to_change(name)
        asked, foreign = merged(before, latest, body) if in_part else (body, {})
        # One that is not in force, since it does not fit our model, may be in another process: ours must be newer.
        settings = checked(backend.mirror, before, asked, if_match, version=max(before.version, latest.version) + 1)
        record = settings_record(
            backend.topics.datasets,
            foreign | settings.model_dump(mode="json"),
            at=datetime.now(UTC),
            request_id=request_id_of(request),
        )
        try:
            await backend.append_after(record, latest.spot)
        except Overtaken as error:
            conditional = if_match is not None or "version" in body
            raise (ChangedError if conditional else ConflictError)(QUICKER) from error
        await _until_seen(backend, settings)
    response.headers["ETag"] = f'"{settings.version}"'
    return settings


def _known(backend: Backend, name: str) -> None:
    names = backend.mirror.names()
    if name not in names:
        shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "") if names else "none yet"
        raise NotFoundError(f"the dataset {name!r} is not known: the datasets are {shown}", field="name")


async def _until_seen(backend: Backend, settings: DatasetSettings) -> None:
    """Who has changed settings finds them changed; where the log is slow, a little later."""
    until = asyncio.get_running_loop().time() + SEEN_WITHIN
    while backend.mirror.to_change(settings.name)[1].version < settings.version:
        if asyncio.get_running_loop().time() >= until:
            return
        await asyncio.sleep(LOOK_EVERY)


@router.get("/v1/datasets/{name}/thresholds", summary="What was learned")
async def thresholds(name: Name, backend: At) -> Thresholds:
    """The thresholds of each class now, what they rest on, and how they have moved."""
    _known(backend, name)
    mirror = backend.mirror
    judge, stats = mirror.judge(name), mirror.stats(name)
    now, before = mirror.yardstick(name), judge.yardstick(judge.empty())
    settings, folder = judge.settings, backend.classifier.folder
    words = stats.total(settings.forget_after_days).counts
    return Thresholds(
        dataset=name,
        version=settings.version,
        epoch=settings.epoch,
        model=ModelName(name=folder.name, fingerprint=folder.fingerprint),
        flag_policy=settings.flag_policy,
        cut=now.cut,
        sentences=stats.histogram.total,
        classes=[
            ClassThreshold(
                name=label,
                own_words=count,
                threshold=now.named[label],
                prior=before.named[label],
                warming_up=label in now.warming_up,
            )
            for label, count in zip(judge.classes, words, strict=True)
        ],
        history=[ThresholdsAt(at=one.at, thresholds=dict(one.thresholds)) for one in mirror.history(name)],
        days=[ArrivedOn(day=one.day, sentences=one.sentences, by_then=one.by_then) for one in mirror.arrivals(name)],
        problem=mirror.refused.get(name),
    )
