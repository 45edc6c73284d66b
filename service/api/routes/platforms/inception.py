"""`/inception/DATASET/KEY`: the address of labelwatch as an external recommender of an INCEpTION project.

INCEpTION sends no credentials, so the key is part of the address. It appends `predict` and `train` to it.
"""

from __future__ import annotations

import logging
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response

from service.api.access.actor import get_actor
from service.api.backend import get_request_id
from service.api.dependencies import BackendDep, DatasetPath
from service.api.http.bodies import read_json_object
from service.api.http.problems import NotReadyError
from service.api.http.request_schemas import allow_other_fields, build_inline_schema
from service.api.http.threads import run_in_thread
from service.api.routes.score import get_scorer
from service.api.scoring.cas_predictor import CasPredictor
from service.api.training_requests import write_training_request
from service.contracts.validation import to_invalid_input
from service.errors import LabelwatchError, SettingsError
from service.formats.platforms.inception.documents import InceptionDocument, TextRange

logger = logging.getLogger(__name__)

KeyPath = Annotated[str, Path(description="A key with the role `inception` for the dataset", examples=["lw_…"])]

router = APIRouter(prefix="/inception/{dataset}/{key}", tags=["inception"])

TRAINING_STARTED: Final = 204
TRAINING_RUNS: Final = 429  # INCEpTION takes it as "is training already"


class _Fields(BaseModel):
    """Fields that are not known are those of a newer INCEpTION."""

    model_config = ConfigDict(extra="ignore")


class Range(_Fields):
    begin: int = Field(ge=0)
    end: int = Field(ge=0)


class Metadata(_Fields):
    layer: str = Field(max_length=512, examples=["de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"])
    feature: str = Field(max_length=512, examples=["value"])
    range: Range | None = Field(default=None, description="Only sentences that touch it")


class Document(_Fields):
    xmi: str = Field(description="The CAS, with tokens and sentences")


class PredictRequest(_Fields):
    metadata: Metadata
    document: Document
    typeSystem: str = Field(description="The type system of the CAS, in XML")  # noqa: N815 - as INCEpTION calls it


class PredictResponse(BaseModel):
    document: str = Field(description="The CAS with the suggestions")


@router.post(
    "/predict",
    name="inception_predict",
    summary="Suggestions for a document",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": allow_other_fields(build_inline_schema(PredictRequest))}},
        }
    },
)
async def predict(dataset: DatasetPath, key: KeyPath, request: Request, backend: BackendDep) -> PredictResponse:  # noqa: ARG001 - the key is checked before
    """What the model finds where there is no annotation, and the entities that it suggests in place of doubtful ones.

    Sentences and words are those of the CAS. An annotation that should go has no suggestion: the review queue shows it.
    """
    body = await read_json_object(request)
    try:
        asked = _parse_request(body)
        document = await run_in_thread(
            InceptionDocument.read,
            asked.document.xmi,
            asked.typeSystem,
            layer=asked.metadata.layer,
            feature=asked.metadata.feature,
        )
        given = asked.metadata.range
        predictor = CasPredictor(backend, get_scorer(request), dataset, request_id=get_request_id(request))
        await predictor.suggest(document, None if given is None else TextRange(given.begin, given.end))
        return PredictResponse(document=await run_in_thread(document.to_xmi))
    except SettingsError as error:  # the library is missing
        logger.error("INCEpTION gets no suggestions for the dataset %s: %s", dataset, error)  # noqa: TRY400 - no trace
        raise NotReadyError(str(error)) from None
    except LabelwatchError as error:
        logger.warning("INCEpTION gets no suggestions for the dataset %s: %s", dataset, error)
        raise


@router.post(
    "/train",
    name="inception_train",
    summary="Ask for a training",
    status_code=TRAINING_STARTED,
    responses={TRAINING_RUNS: {"description": "A training of the dataset runs already"}},
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}},
)
async def train(dataset: DatasetPath, key: KeyPath, request: Request, backend: BackendDep) -> Response:  # noqa: ARG001 - as above
    """Asks the trainer to train now, as `POST /v1/datasets/{name}/trainings` does.

    It trains on the sentences that the dataset has received. The documents of the request are not stored.
    """
    await read_json_object(request)
    requested = await write_training_request(
        backend, dataset, actor=get_actor(request), request_id=get_request_id(request)
    )
    return Response(status_code=TRAINING_RUNS if requested.state == "running" else TRAINING_STARTED)


def _parse_request(body: dict[str, Any]) -> PredictRequest:
    try:
        return PredictRequest.model_validate(body)
    except ValidationError as error:
        raise to_invalid_input(error, location=None) from None
