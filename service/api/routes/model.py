"""The model in use: the default model, or that of a dataset."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from service import __version__
from service.api.access.caller import get_caller
from service.api.dependencies import BackendDep
from service.api.http.threads import run_in_thread
from service.contracts import DatasetName
from service.datasets.registry import check_dataset_exists

router = APIRouter(tags=["service"])

ModelDatasetQuery = Annotated[
    DatasetName | None, Query(description="The model of this dataset. Default: the default model of the service")
]


class Model(BaseModel):
    """The model that assesses the sentences."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "default",
                    "fingerprint": "f3b1…",
                    "labels": ["O", "B-PER", "I-PER"],
                    "scheme": "iob2",
                    "pooling": "mean",
                    "precision": "fast",
                    "max_length": 512,
                    "batching": "planned",
                    "held_out": True,
                    "version": "0.1.0",
                    "may_write": True,
                }
            ]
        }
    )

    name: str
    fingerprint: str = Field(description="Hash of graph and tokenizer; every assessment names it")
    labels: tuple[str, ...] = Field(description="The classes it predicts")
    scheme: str
    pooling: str = Field(description="How the probabilities of subwords become those of the word")
    precision: str
    max_length: int = Field(description="Subwords per window; longer sentences run in overlapping windows")
    batching: Literal["planned", "single"] = Field(
        description="`single`: its probabilities depend on the batch, so each sentence runs alone"
    )
    held_out: bool = Field(description="Whether thresholds start from the model's held-out statistics")
    version: str = Field(description="Version of labelwatch")
    may_write: bool = Field(
        deprecated=True, description="Whether the caller may decide. `GET /v1/me` says what the caller may do"
    )


@router.get("/v1/model", summary="The model")
async def model(request: Request, backend: BackendDep, dataset: ModelDatasetQuery = None) -> Model:
    """Name, classes and fingerprint of the model.

    503 if the model of the dataset is missing: the answer says where it is expected.
    """
    folder = backend.models.default
    if dataset is not None:
        check_dataset_exists(dataset, backend.state_view.list_names(), field="dataset")
        folder = backend.state_view.get_judge(dataset).folder or folder
    classifier = await run_in_thread(backend.models.get_classifier, folder)  # the first use loads it
    return Model(
        name=folder.name,
        fingerprint=folder.fingerprint,
        labels=folder.labels,
        scheme=str(folder.scheme),
        pooling=str(folder.pooling),
        precision=str(folder.precision),
        max_length=folder.max_length,
        batching=classifier.batching,
        held_out=folder.held_out is not None,
        version=__version__,
        may_write=get_caller(request).role in ("reviewer", "admin"),
    )
