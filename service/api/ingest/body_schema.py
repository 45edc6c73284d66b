"""Query parameters and request bodies of `/v1/score` and `/v1/sentences`, as OpenAPI describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.api.ingest.query import (
    DATASET_NAME_PATTERN,
    FORMAT_NAMES,
    LIST_FIELD,
    MAX_LABEL_NAMES_LENGTH,
    MAX_NAME_LENGTH,
    WORDS_FORMAT,
)
from service.contracts import LabelledSentence
from service.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping

QUERY_PARAMETERS: Final[list[dict[str, Any]]] = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": {"type": "string", **schema},
        "description": description,
    }
    for name, schema, description in (
        (
            "format",
            {"enum": list(FORMAT_NAMES), "default": WORDS_FORMAT},
            "Format of the records: sentences (`words`), or what a platform exports; `auto` detects it per record",
        ),
        (
            "dataset",
            {"pattern": DATASET_NAME_PATTERN},
            "Dataset of all records, whatever they say: 1 to 64 lower-case letters, digits, dots, dashes or underscores",
        ),
        (
            "field",
            {"maxLength": MAX_NAME_LENGTH, "minLength": 1},
            "Field of the text or of the words, if it can't be detected; not with `words`",
        ),
        (
            "control",
            {"maxLength": MAX_NAME_LENGTH, "minLength": 1},
            "Control, question or field that holds the spans or labels, if several do; not with `words`",
        ),
        (
            "label_names",
            {"maxLength": MAX_LABEL_NAMES_LENGTH, "minLength": 1},
            "Names of numbered labels, from 0 on, separated by commas: O,B-PER,I-PER; not with `words`",
        ),
    )
]

SENTENCE_SCHEMA: Final[dict[str, Any]] = LabelledSentence.model_json_schema() | {"additionalProperties": False}
SENTENCE_SCHEMA["properties"]["meta"]["anyOf"][0]["additionalProperties"] = True
SENTENCE_SCHEMA["properties"]["probabilities"]["anyOf"][0] = SENTENCE_SCHEMA["$defs"]["WordProbabilities"] | {
    "additionalProperties": False
}
del SENTENCE_SCHEMA["$defs"]
RECORD_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": "PlatformRecord",
    "description": "A record as a platform exports it, with a `format`; its fields have the platform's names",
    "anyOf": [
        {"required": list(keys)}
        for keys in dict.fromkeys(keys for form in FORMATS.values() for keys in form.record_keys)
    ],
}
RECORD_EXAMPLE: Final[dict[str, Any]] = {
    "id": 7,
    "data": {"text": "Jane Smith visited Oslo."},
    "annotations": [
        {
            "id": 41,
            "result": [
                {
                    "from_name": "label",
                    "to_name": "text",
                    "type": "labels",
                    "value": {"start": 0, "end": 10, "text": "Jane Smith", "labels": ["PER"]},
                }
            ],
        }
    ],
}


def build_body_schema(list_schema: Mapping[str, Any] | None = None, *, example: Mapping[str, Any]) -> dict[str, Any]:
    """The request body: one sentence or record, a list, or one per line. `list_schema`: options beside the list."""
    listed = {
        "type": "object",
        "properties": {
            LIST_FIELD: {"type": "array", "minItems": 1, "items": {"anyOf": [SENTENCE_SCHEMA, RECORD_SCHEMA]}},
            **(list_schema or {}),
        },
        "required": [LIST_FIELD],
        "additionalProperties": False,
    }
    return {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        SENTENCE_SCHEMA,
                        listed,
                        RECORD_SCHEMA,
                        {
                            "type": "array",
                            "minItems": 1,
                            "items": RECORD_SCHEMA,
                            "description": "With a `format` other than `words`",
                        },
                    ]
                },
                "examples": {
                    "one": {"summary": "One sentence", "value": example},
                    "many": {"summary": "A list", "value": {LIST_FIELD: [example]}},
                    "records": {
                        "summary": "A task of Label Studio, with `?format=label-studio` (or `auto`)",
                        "value": RECORD_EXAMPLE,
                    },
                },
            },
            "application/x-ndjson": {
                "schema": {"type": "string", "description": "One sentence or record per line; answered line by line"},
            },
        },
    }
