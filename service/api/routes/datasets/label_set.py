"""The label set of a dataset: read it, or take it from an annotation platform."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from service.api.dependencies import BackendDep, DatasetPath
from service.api.routes.datasets.change import CREATED_RESPONSE, ChangedSettings, SettingsChangeDep
from service.datasets.registry import check_dataset_exists
from service.formats.label_sets import parse_label_set

router = APIRouter(tags=["datasets"])

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


class DatasetLabelSet(BaseModel):
    """The entity types that can be suggested in a dataset."""

    types: tuple[str, ...] = Field(description="As the dataset names them, without `O`")
    source: Literal["given", "learned", "model"] = Field(
        description="`given`: by `label_set`, other types are rejected; `learned`: the types of the model that labels "
        "of the dataset have; `model`: all types of the model"
    )
    unused_types: tuple[str, ...] = Field(description="Types of the model that no label of the dataset has so far")


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
    request: Request, change: SettingsChangeDep, *, labels_name: LabelsNameQuery = None
) -> ChangedSettings:
    """Sets `label_set` to the labels of a labelling interface or of a question for spans; other settings stay.

    To name the types yourself, PATCH `label_set`. Checks, versions and `If-Match` work as with PATCH.
    """
    types = parse_label_set(await request.body(), name=labels_name).types
    return await change.apply({"label_set": list(types)}, partial=True)
