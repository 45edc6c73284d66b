"""The models of a dataset over REST: which one it uses, and the trainings so far."""

from __future__ import annotations

from fastapi import APIRouter

from service.api.dependencies import BackendDep, DatasetPath
from service.contracts import DatasetModels
from service.datasets.registry import check_dataset_exists
from service.datasets.training_schedule import build_dataset_models

router = APIRouter(tags=["datasets"])


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
    )
