"""Settings of each dataset, what they mean for its sentences, and which of these wait."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.api.dependencies import BackendDep, CallerDep, DatasetPath
from service.api.http.bodies import read_json_object
from service.api.http.request_schemas import build_inline_schema, build_patch_schema
from service.api.routes.datasets.change import CREATED_RESPONSE, ChangedSettings, SettingsChangeDep
from service.contracts import DatasetSettings
from service.datasets.registry import check_dataset_exists
from service.errors import MissingModelError
from service.labels.unknown_labels import build_settings_advice
from service.scoring.sentence import METHODS
from service.scoring.token import TOKEN_SCORES

router = APIRouter(tags=["datasets"])

EXAMPLE = {"control_share": 0.01, "label_map": {"PERSON": "PER"}, "flag_policy": {"kind": "confident"}}
SETTINGS_SCHEMA = build_inline_schema(DatasetSettings)
SETTINGS_SCHEMA["properties"]["method"]["enum"] = list(METHODS)
SETTINGS_SCHEMA["properties"]["token_score"]["enum"] = list(TOKEN_SCORES)
MERGED_SETTINGS: dict[str, dict[str, Any]] = {
    "label_map": {
        "type": ["object", "null"],
        "additionalProperties": {"type": ["string", "null"]},
        "description": "Entries to add, to change, and with null to remove",
    },
    "flag_policy": {"type": ["object", "null"], "description": "Some of its fields, or all of another `kind`"},
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


@router.get("/v1/datasets", summary="All datasets")
async def datasets(backend: BackendDep, caller: CallerDep) -> DatasetList:
    """Datasets that have settings, and datasets that sentences arrived for. A key for some datasets sees only these."""
    view = backend.state_view
    problems, misfits = view.refused_settings, view.list_misfits()
    summaries = []
    for name in caller.select(view.list_names()):
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
                    "schema": SETTINGS_SCHEMA,
                    "examples": {"some": {"summary": "A label map and a control sample", "value": EXAMPLE}},
                }
            },
        }
    },
)
async def put_dataset(request: Request, change: SettingsChangeDep) -> ChangedSettings:
    """Replaces ALL settings: a setting that the body leaves out gets its default, `label_map` too. To change some, use PATCH.

    Only `epoch` and `ranker_epoch` keep their value when left out.

    The service tries the settings with the model before it writes them. A `version` in the body must be the one in
    force, as with `If-Match`. A dataset that is not known yet is created and answered 201: check its name. Of several changes at the same moment one succeeds; the others are answered 409, or 412
    if they name a version. Every process follows within seconds; each assessment names the version it was made with.
    """
    return await change.apply(await read_json_object(request), partial=False)


@router.patch(
    "/v1/datasets/{name}",
    summary="Change some settings",
    responses=CREATED_RESPONSE,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": build_patch_schema(SETTINGS_SCHEMA, merged=MERGED_SETTINGS)
                    | {"description": "Some of the fields of DatasetSettings"},
                    "examples": {"one": {"summary": "The control sample alone", "value": {"control_share": 0.01}}},
                }
            },
        }
    },
)
async def patch_dataset(request: Request, change: SettingsChangeDep) -> ChangedSettings:
    """Changes the settings that the body names, as `labelwatch datasets set` does; the others stay as they are.

    The rule is that of JSON Merge Patch: `label_map` and `flag_policy` are merged by their own fields, and null takes a
    setting, or an entry of `label_map`, back to its default. A `flag_policy` of another `kind` replaces the one before.
    Checks, versions and `If-Match` work as with PUT. If the newest settings are not in force, the answer is 409:
    replace them by PUT. `effects` of the answer say what the change means: sentences that wait, statistics that start
    anew. `dry_run` answers the same without writing.
    """
    return await change.apply(await read_json_object(request), partial=True)


@router.get("/v1/datasets/{name}/waiting", summary="Stored sentences of a dataset")
async def waiting(name: DatasetPath, backend: BackendDep) -> Waiting:
    """How many sentences wait for a model, why, and what to do. The number is 0 if the dataset does not wait."""
    check_dataset_exists(name, backend.state_view.list_names())
    found = backend.state_view.find_waiting(name)
    if found is None:
        return Waiting(sentences=0, unknown_labels={}, fits=True, advice="")
    return Waiting.model_validate(found)
