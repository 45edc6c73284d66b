"""The model that judges."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from service import __version__
from service.api.backend import Backend, provide_backend
from service.api.http.auth import Authenticator
from service.api.http.problems import ForbiddenError

router = APIRouter(tags=["service"])


class Model(BaseModel):
    """What judges the sentences."""

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
    fingerprint: str = Field(description="Of graph and tokenizer; every assessment names it")
    labels: tuple[str, ...] = Field(description="Its classes")
    scheme: str
    pooling: str = Field(description="How the probabilities of a word's parts become the word's")
    precision: str
    max_length: int = Field(description="Subwords it sees at once; longer sentences go through overlapping windows")
    batching: Literal["planned", "single"] = Field(
        description="`single`: batch mates change its answers, so it has none"
    )
    held_out: bool = Field(description="Whether thresholds start from the model's own held-out words")
    version: str = Field(description="Of labelwatch")
    may_write: bool = Field(
        description="Whether the key that asks may write too: send sentences, decide, change settings"
    )


@router.get("/v1/model", summary="The model")
async def model(request: Request, backend: Annotated[Backend, Depends(provide_backend)]) -> Model:
    """Name, classes and fingerprint of the model that judges."""
    folder = backend.classifier.folder
    return Model(
        name=folder.name,
        fingerprint=folder.fingerprint,
        labels=folder.labels,
        scheme=str(folder.scheme),
        pooling=str(folder.pooling),
        precision=str(folder.precision),
        max_length=folder.max_length,
        batching=backend.classifier.batching,
        held_out=folder.held_out is not None,
        version=__version__,
        may_write=_may_write(request, backend),
    )


def _may_write(request: Request, backend: Backend) -> bool:
    """So that who reviews learns it before the first decision is refused."""
    try:
        Authenticator(backend.settings.known_keys).authorize(request.headers, "write")
    except ForbiddenError:
        return False
    return True
