"""`/label-studio/DATASET/KEY`: the address of labelwatch as a model (an ML backend) of a Label Studio project.

| path | Label Studio calls it | limit |
|---|---|---|
| `health` | before every other call | 1 s |
| `setup` | when the model is connected or looked at, and before predictions | 3 s |
| `predict` | for the tasks that are opened or selected | 100 s |
| `webhook` | for every event of the project: Label Studio registers it itself | 1 s |

Of an error Label Studio shows the status only, so the reason is logged too.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from service.api.access.actor import get_actor
from service.api.backend import Backend, get_request_id
from service.api.dependencies import BackendDep, DatasetPath
from service.api.http.bodies import read_json_object
from service.api.http.problems import NotReadyError, TooLargeError
from service.api.routes.health import get_conditions
from service.api.routes.platforms.webhooks import WebhookResult, ingest_event
from service.api.routes.score import get_scorer
from service.api.scoring.task_predictor import TaskPredictor, build_model_version
from service.api.settings_writer import write_settings
from service.api.training_requests import write_training_request
from service.errors import DecodeError, InvalidInput, LabelwatchError
from service.formats import FORMATS
from service.formats.platforms.label_studio.annotations import PLATFORM
from service.formats.platforms.label_studio.tasks import parse_labeling_interface
from service.formats.platforms.label_studio.webhook import WEBHOOK, LabelStudioQuery

logger = logging.getLogger(__name__)

SETUP_VISIBLE_TIMEOUT_S: Final = 1.0  # Label Studio waits 3 seconds for all of it
START_TRAINING: Final = "START_TRAINING"
PROJECT_UPDATED: Final = "PROJECT_UPDATED"
LABELING_INTERFACE: Final = (
    '<View><Labels name="label" toName="text"><Label value="PER"/></Labels><Text name="text" value="$text"/></View>'
)
TASK: Final = {"id": 7, "project": 1, "data": {"text": "Mara Quill flew to Riga."}, "annotations": []}

KeyPath = Annotated[str, Path(description="A key with the scope `label-studio` for the dataset", examples=["lw_…"])]


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """What the path names. The key has been checked before."""

    dataset: str
    key: str = field(repr=False)


async def read_address(dataset: DatasetPath, key: KeyPath) -> ModelAddress:
    return ModelAddress(dataset, key)


AddressDep = Annotated[ModelAddress, Depends(read_address)]

router = APIRouter(prefix="/label-studio/{dataset}/{key}", tags=["label-studio"], dependencies=[Depends(read_address)])


class Health(BaseModel):
    status: Literal["UP"] = "UP"
    model_class: str = "labelwatch"


class ModelVersion(BaseModel):
    model_version: str = Field(description="Name and fingerprint of the model")


class ModelVersions(BaseModel):
    versions: list[str]


class TaskPrediction(BaseModel):
    result: list[dict[str, Any]] = Field(description="Regions: spans with a label; those of the model have a `score`")
    score: float | None = Field(default=None, description="Low is bad: the model is unsure, or doubts the annotation")
    model_version: str


class TaskPredictions(BaseModel):
    results: list[TaskPrediction | list[TaskPrediction]] = Field(
        description="One per task, in their order; an empty list for a task that can't be read or judged"
    )


class TrainingRequested(BaseModel):
    event: Literal["START_TRAINING"] = "START_TRAINING"
    state: Literal["requested", "running"] = Field(description="`running`: a training of the dataset runs already")
    auto_train: bool = Field(description="Whether the dataset's settings turn `auto_train` on")
    request_id: str


def _describe_body(example: Mapping[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object", "examples": [example]}}}
    return {"requestBody": {"required": True, "content": content}}


@router.get("/health", name="label_studio_health", summary="Whether the model can be used")
async def health(backend: BackendDep) -> Health:
    """Answers 503 with the reason until the service is ready."""
    reasons = [reason for reason in get_conditions(backend).values() if reason]
    if reasons:
        raise NotReadyError("; ".join(reasons))
    return Health()


@router.get("/versions", name="label_studio_versions", summary="The model's versions")
async def versions(address: AddressDep, backend: BackendDep) -> ModelVersions:
    """The model that the dataset is judged with now."""
    return ModelVersions(versions=[_get_model_version(backend, address.dataset)])


@router.post(
    "/setup",
    name="label_studio_setup",
    summary="Connect a project",
    openapi_extra=_describe_body({"project": "1.1772359200", "schema": LABELING_INTERFACE}),
)
async def setup(address: AddressDep, request: Request, backend: BackendDep) -> ModelVersion:
    """Takes the labels of the labelling interface (`schema`) as the dataset's label set."""
    body = await read_json_object(request)
    try:
        await _take_label_set(request, backend, address.dataset, body.get("schema"), "schema")
        return ModelVersion(model_version=_get_model_version(backend, address.dataset))
    except LabelwatchError as error:
        logger.warning("Label Studio can't use the dataset %s as a model: %s", address.dataset, error)
        raise


@router.post(
    "/predict",
    name="label_studio_predict",
    summary="Predictions for tasks",
    response_model=TaskPredictions,
    openapi_extra=_describe_body({"tasks": [TASK], "label_config": LABELING_INTERFACE}),
)
async def predict(address: AddressDep, request: Request, backend: BackendDep) -> dict[str, Any]:
    """For a task without annotations the spans that the model finds.

    For a task with annotations or drafts the spans of the newest one, with doubtful ones replaced by those of the model.
    """
    body = await read_json_object(request)
    try:
        tasks = body.get("tasks")
        if not isinstance(tasks, list) or not tasks:
            raise InvalidInput("give a list with at least one", field="tasks")
        if len(tasks) > backend.settings.max_sentences:
            raise TooLargeError(
                f"{len(tasks):,} tasks, the limit is {backend.settings.max_sentences:,} per request: select fewer tasks, "
                "or raise LABELWATCH_API_MAX_SENTENCES",
                field="tasks",
            )
        interface = parse_labeling_interface(body.get("label_config"), "label_config")
        predictor = TaskPredictor(
            backend, get_scorer(request), address.dataset, interface, request_id=get_request_id(request)
        )
        predictions = await predictor.predict(tasks)
    except LabelwatchError as error:
        logger.warning("Label Studio gets no predictions for the dataset %s: %s", address.dataset, error)
        raise
    return {"results": [[] if prediction is None else prediction for prediction in predictions]}


@router.post(
    "/webhook",
    name="label_studio_webhook",
    summary="Take an event of the project",
    status_code=202,
    response_model=WebhookResult | TrainingRequested,
    openapi_extra=_describe_body(WEBHOOK.example),
)
async def webhook(address: AddressDep, request: Request, backend: BackendDep) -> Response:
    """Annotations that are created, updated or deleted are appended to the log, as at `/v1/webhooks/label-studio`.

    A changed labelling interface changes the dataset's label set. `START_TRAINING` asks the trainer to train now, as
    `POST /v1/datasets/{name}/trainings` does.
    """
    dataset = address.dataset
    action, body = await _peek_action(request)
    if action == START_TRAINING:
        return await _start_training(request, backend, dataset)
    if action == PROJECT_UPDATED:
        project = body.get("project")
        try:
            if isinstance(project, dict) and "label_config" in project:
                await _take_label_set(request, backend, dataset, project["label_config"], "project.label_config")
        except LabelwatchError as error:  # the event itself is valid, and nobody reads the answer
            logger.warning("the label set of dataset %s stays as it is: %s", dataset, error)
    return await ingest_event(request, FORMATS[PLATFORM], WEBHOOK, LabelStudioQuery(dataset=dataset))


async def _peek_action(request: Request) -> tuple[object, dict[str, Any]]:
    """The action and the body of an event that is about the project itself. Most are not, and are parsed only once."""
    raw = await request.body()
    if not any(action.encode() in raw for action in (START_TRAINING, PROJECT_UPDATED)):
        return None, {}
    try:
        body = await read_json_object(request)
    except DecodeError:
        return None, {}  # it is reported where events are read
    return body.get("action"), body


async def _take_label_set(request: Request, backend: Backend, dataset: str, xml: object, field: str) -> None:
    """Writes the labels of the labelling interface as the dataset's label set, if they changed."""
    types = parse_labeling_interface(xml, field).label_set
    given = backend.state_view.get_settings_state(dataset).in_force.label_set
    if given is None or set(given) != set(types):
        fields = {"label_set": list(types)}
        await write_settings(request, dataset, fields, partial=True, visible_timeout_s=SETUP_VISIBLE_TIMEOUT_S)
        logger.info(
            "the label set of dataset %s is now that of its Label Studio project: %s", dataset, ", ".join(types)
        )


async def _start_training(request: Request, backend: Backend, dataset: str) -> Response:
    requested = await write_training_request(
        backend, dataset, actor=get_actor(request), request_id=get_request_id(request)
    )
    backend.telemetry.count_webhook(PLATFORM, "taken")
    auto_train = backend.state_view.get_settings_state(dataset).in_force.auto_train is True
    answer = TrainingRequested(state=requested.state, auto_train=auto_train, request_id=requested.request_id)
    return Response(answer.model_dump_json(), status_code=202, media_type="application/json")


def _get_model_version(backend: Backend, dataset: str) -> str:
    return build_model_version(backend.state_view.get_context(dataset).judge.model)
