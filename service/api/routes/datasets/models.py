"""The models of a dataset over REST: which one it uses, and the trainings so far."""

from __future__ import annotations

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from service.api.access.actor import get_actor
from service.api.backend import Backend, get_request_id
from service.api.dependencies import BackendDep, CallerDep, DatasetPath
from service.api.http.bodies import read_empty_object
from service.api.http.threads import run_in_thread
from service.api.training_requests import RequestedTraining, write_training_request
from service.contracts import DatasetModels
from service.datasets.registry import check_dataset_exists
from service.datasets.training_schedule import build_dataset_models
from service.errors import MissingModelError

router = APIRouter(tags=["datasets"])

MAX_MODELS = 500


class RegistryModel(BaseModel):
    name: str | None = Field(
        description="The name that `model` of a dataset takes; null: the default model of the service"
    )
    title: str = Field(description="Its own name")
    fingerprint: str | None
    labels: tuple[str, ...] = Field(description="The classes that it predicts")
    trained: bool = Field(description="Whether it was trained on a team's own labels")
    problem: str | None = Field(description="Why it can't be used")
    datasets: list[str] = Field(description="The datasets that use it")


class RegistryModels(BaseModel):
    models: list[RegistryModel]


@router.get("/v1/models", summary="All models")
async def registry_models(backend: BackendDep, caller: CallerDep) -> RegistryModels:
    """The default model, the other models that are part of labelwatch (`light`) and those of the registry, with the datasets that use each."""
    view = backend.state_view
    users: dict[str | None, list[str]] = {}
    for name in caller.select(view.list_names()):
        users.setdefault(view.get_settings_state(name).in_force.model, []).append(name)
    names: list[str | None] = [None, *backend.models.list_names()[:MAX_MODELS]]
    models = [await run_in_thread(_describe_model, backend, name, users.get(name, [])) for name in names]
    return RegistryModels(models=models)


def _describe_model(backend: Backend, name: str | None, datasets: list[str]) -> RegistryModel:
    try:
        folder = backend.models.get_folder(name)
    except MissingModelError as error:
        return RegistryModel(
            name=name,
            title=name or "",
            fingerprint=None,
            labels=(),
            trained=False,
            problem=str(error),
            datasets=datasets,
        )
    return RegistryModel(
        name=name,
        title=folder.name,
        fingerprint=folder.fingerprint,
        labels=tuple(folder.labels),
        trained=folder.is_trained,
        problem=None,
        datasets=datasets,
    )


@router.get("/v1/datasets/{name}/models", summary="Models of a dataset")
async def dataset_models(name: DatasetPath, backend: BackendDep) -> DatasetModels:
    """The model that the dataset uses, how many sentences the next training needs, and every training.

    A training has its figures per type, whether the model is used, and if not, why.
    """
    view = backend.state_view
    check_dataset_exists(name, view.list_names())
    waiting = view.snapshot.get_arrivals(name).total.waiting
    return build_dataset_models(
        view.get_settings_state(name).in_force,
        backend.training_view.list_trainings(name),
        waiting=waiting,
        arrived=waiting + view.snapshot.count_sentences_by_dataset()[name],
        min_sentences=backend.min_training_sentences,
        default=backend.auto_train,
        request=backend.training_view.find_request(name),
    )


@router.post(
    "/v1/datasets/{name}/trainings",
    summary="Train a model now",
    status_code=202,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"type": "object", "maxProperties": 0, "examples": [{}]}},
            },
        }
    },
)
async def request_training(name: DatasetPath, request: Request, backend: BackendDep) -> RequestedTraining:
    """Asks the trainer (of `labelwatch up`, or `labelwatch trainer`) to train the dataset's model from its own labels now.

    The request is kept in the log until a trainer takes it. While one is kept, or a training of the dataset runs, another
    request changes nothing. The trainer compares the new model with the one in use, as always. `GET
    /v1/datasets/{name}/models` shows what came of it.
    """
    check_dataset_exists(name, backend.state_view.list_names())
    await read_empty_object(request)
    return await write_training_request(backend, name, actor=get_actor(request), request_id=get_request_id(request))
