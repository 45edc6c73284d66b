"""Settings of each dataset, and the thresholds that its sentences are judged with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.backend import Backend
from service.api.dependencies import BackendDep, DatasetPath
from service.api.http.bodies import read_json_object
from service.api.http.threads import run_in_thread
from service.api.settings_writer import write_settings
from service.contracts import DatasetSettings, FlagPolicy, ModelName
from service.datasets.registry import check_dataset_exists
from service.datasets.threshold_view import build_threshold_view
from service.errors import MissingModelError
from service.formats.label_sets import parse_label_set
from service.labels.unknown_labels import build_settings_advice

router = APIRouter(tags=["datasets"])

EXAMPLE = {"control_share": 0.01, "label_map": {"PERSON": "PER"}, "flag_policy": {"kind": "confident"}}
LABELING_INTERFACE_EXAMPLE = (
    '<View><Labels name="label" toName="text"><Label value="DRUG"/><Label value="DISEASE"/></Labels>'
    '<Text name="text" value="$text"/></View>'
)
QUESTION_EXAMPLE = {
    "name": "entities",
    "settings": {"type": "span", "field": "text", "options": [{"value": "DRUG"}, {"value": "DISEASE"}]},
}

LabelsNameQuery = Annotated[
    str | None, Query(alias="name", description="The control or question that counts, if there are several")
]
IfMatchHeader = Annotated[str | None, Header(description="The version to change, as in the `ETag` of GET")]
CREATED_RESPONSE: dict[int | str, dict[str, Any]] = {
    201: {"model": DatasetSettings, "description": "The dataset is new: it had neither settings nor sentences"}
}
PROBLEM_DESCRIPTION = "Why newer settings are not in force, or why the dataset can't be judged: its model is missing"


class Waiting(BaseModel):
    """Sentences that are stored until the dataset has a model that fits. They are judged then, in their order."""

    model_config = ConfigDict(from_attributes=True)

    sentences: int = Field(description="How many are stored. One that is sent again counts again")
    unknown_labels: dict[str, int] = Field(
        description="Labels that the model has no class for, with the number of sentences that contain them"
    )
    fits: bool = Field(description="Whether the dataset has a model by now: then the stored sentences are being judged")
    advice: str = Field(description="What to do: train a model, bring one, or map labels; empty if the dataset fits")


class DatasetSummary(BaseModel):
    name: str
    version: int = Field(description="Version of the settings in force; 0 for the default settings")
    epoch: int
    sentences: int = Field(description="Sentences that the statistics contain")
    state: Literal["judged", "waiting"] = Field(
        default="judged",
        description="`waiting`: no model fits the labels, so sentences are stored and not judged",
    )
    waiting: Waiting | None = Field(default=None, description="What is stored; null if nothing is")
    problem: str | None = Field(default=None, description=PROBLEM_DESCRIPTION)
    misfit: str | None = Field(
        default=None, description="If the model flags an implausible share of the sentences: that share, and what to do"
    )


class DatasetList(BaseModel):
    datasets: list[DatasetSummary]


class ClassThreshold(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    name: str
    own_words: int = Field(description="Words of the dataset that the threshold rests on")
    threshold: float | None = Field(description="Null if there is too little evidence: the class can't be suggested")
    prior: float | None = Field(description="The threshold before the first word of the dataset")
    warming_up: bool


class DatasetLabelSet(BaseModel):
    """The entity types that can be suggested in a dataset."""

    types: tuple[str, ...] = Field(description="As the dataset names them, without `O`")
    source: Literal["given", "learned", "model"] = Field(
        description="`given`: by `label_set`, other types are rejected; `learned`: the types of the model that labels "
        "of the dataset have; `model`: all types of the model"
    )
    unused_types: tuple[str, ...] = Field(description="Types of the model that no label of the dataset has so far")


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


@router.get("/v1/datasets", summary="All datasets")
async def datasets(backend: BackendDep) -> DatasetList:
    """Datasets that have settings, and datasets that sentences arrived for."""
    view = backend.state_view
    problems, misfits = view.refused_settings, view.list_misfits()
    summaries = []
    for name in view.list_names():
        settings, problem = view.get_settings(name), problems.get(name)
        waiting = view.find_waiting(name)
        try:
            sentences = view.get_stats(name).histogram.total
        except MissingModelError as error:  # which statistics are the dataset's depends on the model
            sentences, problem = 0, problem or str(error)
        summaries.append(
            DatasetSummary(
                name=name,
                version=settings.version,
                epoch=settings.epoch,
                sentences=sentences,
                state="judged" if waiting is None or waiting.fits else "waiting",
                waiting=None if waiting is None else Waiting.model_validate(waiting),
                problem=problem,
                misfit=misfits[name].explain(build_settings_advice(name)) if name in misfits else None,
            )
        )
    return DatasetList(datasets=summaries)


@router.get("/v1/datasets/{name}", summary="Settings of a dataset")
async def dataset(name: DatasetPath, backend: BackendDep, response: Response) -> DatasetSettings:
    """The settings in force. `ETag` is their version."""
    check_dataset_exists(name, backend.state_view.list_names())
    settings = backend.state_view.get_settings(name)
    response.headers["ETag"] = f'"{settings.version}"'
    return settings


@router.put(
    "/v1/datasets/{name}",
    summary="Replace all settings of a dataset",
    responses=CREATED_RESPONSE,
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
    """Replaces ALL settings: a setting that the body leaves out gets its default, `label_map` too. To change some, use PATCH.

    Only `epoch` and `ranker_epoch` keep their value when left out.

    The service tries the settings with the model before it writes them. A `version` in the body must be the one in
    force, as with `If-Match`. A dataset that is not known yet is created and answered 201: check its name. Of several changes at the same moment one succeeds; the others are answered 409, or 412
    if they name a version. Every process follows within seconds; each assessment names the version it was made with.
    """
    return await _change_settings(request, response, backend, name, if_match=if_match, partial=False)


@router.patch(
    "/v1/datasets/{name}",
    summary="Change some settings",
    responses=CREATED_RESPONSE,
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
    """Changes the settings that the body names, as `labelwatch datasets set` does; the others stay as they are.

    The rule is that of JSON Merge Patch: `label_map` and `flag_policy` are merged by their own fields, and null takes a
    setting, or an entry of `label_map`, back to its default. A `flag_policy` of another `kind` replaces the one before.
    Checks, versions and `If-Match` work as with PUT. If the newest settings are not in force, the answer is 409:
    replace them by PUT.
    """
    return await _change_settings(request, response, backend, name, if_match=if_match, partial=True)


@router.get("/v1/datasets/{name}/waiting", summary="Stored sentences of a dataset")
async def waiting(name: DatasetPath, backend: BackendDep) -> Waiting:
    """How many sentences wait for a model, why, and what to do. The number is 0 if the dataset does not wait."""
    check_dataset_exists(name, backend.state_view.list_names())
    found = backend.state_view.find_waiting(name)
    if found is None:
        return Waiting(sentences=0, unknown_labels={}, fits=True, advice="")
    return Waiting.model_validate(found)


@router.get("/v1/datasets/{name}/label-set", summary="Label set of a dataset")
async def label_set(name: DatasetPath, backend: BackendDep) -> DatasetLabelSet:
    """The entity types that can be suggested, as the dataset names them, and where they come from."""
    check_dataset_exists(name, backend.state_view.list_names())
    context = backend.state_view.get_context(name)
    given, unused = context.judge.settings.label_set, context.threshold_set.unused_types
    return DatasetLabelSet(
        types=context.judge.label_writer.list_types(unused) if given is None else given,
        source="given" if given is not None else "learned" if unused else "model",
        unused_types=unused,
    )


@router.put(
    "/v1/datasets/{name}/label-set",
    summary="Take the label set from an annotation platform",
    responses=CREATED_RESPONSE,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/xml": {
                    "schema": {"type": "string", "description": "The labelling interface of a Label Studio project"},
                    "examples": {"interface": {"summary": "Two types", "value": LABELING_INTERFACE_EXAMPLE}},
                },
                "application/json": {
                    "schema": {
                        "type": "object",
                        "description": "A Label Studio project (`label_config`), or an Argilla dataset (`questions`), "
                        "list of questions (`items`) or question",
                    },
                    "examples": {"question": {"summary": "An Argilla question", "value": QUESTION_EXAMPLE}},
                },
            },
        }
    },
)
async def put_label_set(
    name: DatasetPath,
    request: Request,
    response: Response,
    backend: BackendDep,
    *,
    labels_name: LabelsNameQuery = None,
    if_match: IfMatchHeader = None,
) -> DatasetSettings:
    """Sets `label_set` to the labels of a labelling interface or of a question for spans; other settings stay.

    To name the types yourself, PATCH `label_set`. Checks, versions and `If-Match` work as with PATCH.
    """
    fields = {"label_set": list(parse_label_set(await request.body(), name=labels_name).types)}
    return await _write_settings(request, response, backend, name, fields, if_match=if_match, partial=True)


async def _change_settings(
    request: Request,
    response: Response,
    backend: Backend,
    name: str,
    *,
    if_match: str | None,
    partial: bool,
) -> DatasetSettings:
    fields = await read_json_object(request)
    return await _write_settings(request, response, backend, name, fields, if_match=if_match, partial=partial)


async def _write_settings(
    request: Request,
    response: Response,
    backend: Backend,
    name: str,
    fields: Mapping[str, Any],
    *,
    if_match: str | None,
    partial: bool,
) -> DatasetSettings:
    is_new = name not in backend.state_view.list_names()
    settings = await write_settings(
        request, name, fields, if_match=_parse_entity_tags(if_match) if if_match else None, partial=partial
    )
    response.headers["ETag"] = f'"{settings.version}"'
    if is_new:
        response.status_code = HTTPStatus.CREATED
    return settings


def _parse_entity_tags(header: str) -> list[str]:
    return [tag.strip().removeprefix("W/").strip('"') for tag in header.split(",")]


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
