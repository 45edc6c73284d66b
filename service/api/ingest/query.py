"""What a request's query says of the records in its body, and how OpenAPI tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from service.contracts import DATASET_NAME_RULE, DatasetName
from service.errors import InvalidInput
from service.formats import FORMATS
from service.formats.detection import detect_object_format
from service.formats.records import LABEL_FIELDS, WORD_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import QueryParams

WORDS_FORMAT: Final = "words"
AUTO_FORMAT: Final = "auto"
FORMAT_NAMES: Final = (WORDS_FORMAT, *(form.name for form in FORMATS.values() if form.convert is not None), AUTO_FORMAT)
MAX_NAME_LENGTH: Final = 256
MAX_LABEL_NAMES_LENGTH: Final = 10_000

_DATASET_NAME: Final = TypeAdapter(DatasetName)

QUERY_PARAMETERS: Final[list[dict[str, Any]]] = [
    {
        "name": name,
        "in": "query",
        "required": False,
        "schema": {"type": "string", **schema},
        "description": told,
    }
    for name, schema, told in (
        (
            "format",
            {"enum": list(FORMAT_NAMES), "default": WORDS_FORMAT},
            "What the records are: sentences (`words`), or what a platform exports; `auto` looks at each record",
        ),
        (
            "dataset",
            {"pattern": _DATASET_NAME.json_schema()["pattern"]},
            "Dataset of all records, whatever they say: 1 to 64 lower-case letters, digits, dots, dashes or underscores",
        ),
        (
            "field",
            {"maxLength": MAX_NAME_LENGTH, "minLength": 1},
            "Field of the text or of the words, where it can't be told; not with `words`",
        ),
        (
            "control",
            {"maxLength": MAX_NAME_LENGTH, "minLength": 1},
            "Control, question or field that holds the spans or labels, where several do; not with `words`",
        ),
        (
            "label_names",
            {"maxLength": MAX_LABEL_NAMES_LENGTH, "minLength": 1},
            "What numbered labels mean, from 0 on, separated by commas: O,B-PER,I-PER; not with `words`",
        ),
    )
]
QUERY_PARAMETER_NAMES: Final = tuple(str(one["name"]) for one in QUERY_PARAMETERS)
RECORD_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": "PlatformRecord",
    "description": "What a platform exports, with a `format`; the names of fields are the platform's",
    "anyOf": [
        {"required": list(keys)}
        for keys in dict.fromkeys(keys for form in FORMATS.values() for keys in form.record_keys)
    ],
}
EXAMPLE: Final[dict[str, Any]] = {
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


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """What the query says of the records."""

    format: str = WORDS_FORMAT
    dataset: str | None = None
    field: str | None = None
    control: str | None = None
    label_names: tuple[str, ...] = ()

    @property
    def is_words_format(self) -> bool:
        """Whether the records are sentences as we write them."""
        return self.format == WORDS_FORMAT


def parse_record_query(query: QueryParams, *, extra: Sequence[str] = ()) -> RecordQuery:
    """What the query says; `also` are the parameters that others read."""
    known = (*QUERY_PARAMETER_NAMES, *extra)
    for name in query:
        if name not in known:
            raise InvalidInput(f"there is no such parameter: there are {', '.join(known)}", field=name)
    form = query.get("format", WORDS_FORMAT)
    if form not in FORMAT_NAMES:
        raise InvalidInput(f"{form[:40]!r} is no format: choose one of {', '.join(FORMAT_NAMES)}", field="format")
    dataset = query.get("dataset")
    if dataset is not None:
        check_dataset_name(dataset)
    for name, most in (
        ("field", MAX_NAME_LENGTH),
        ("control", MAX_NAME_LENGTH),
        ("label_names", MAX_LABEL_NAMES_LENGTH),
    ):
        given = query.get(name)
        if given is None:
            continue
        if form == WORDS_FORMAT:
            raise InvalidInput(
                "it is for the records of platforms: name their `format` too, or leave it out", field=name
            )
        if not 0 < len(given) <= most:
            raise InvalidInput(f"{len(given)} characters: give 1 to {most:,}, or leave it out", field=name)
    names = query.get("label_names")
    return RecordQuery(
        format=form,
        dataset=dataset,
        field=query.get("field"),
        control=query.get("control"),
        label_names=tuple(name.strip() for name in names.split(",")) if names is not None else (),
    )


def detect_record_format(record: Mapping[str, Any]) -> str | None:
    """The format that a record is in by its fields, if they tell."""
    found = detect_object_format(record)
    if found in FORMAT_NAMES:
        return found
    foreign = (*WORD_FIELDS[1:], *LABEL_FIELDS[1:])
    if any(name in record for name in foreign):
        return "huggingface"
    return WORDS_FORMAT if any(name in record for name in ("tokens", "labels", "deleted")) else None


def check_dataset_name(name: str) -> None:
    try:
        _DATASET_NAME.validate_python(name)
    except ValidationError:
        raise InvalidInput(f"{name[:80]!r} can't be a dataset: {DATASET_NAME_RULE}", field="dataset") from None
