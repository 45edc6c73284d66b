"""What a request's query says of the records in its body, and how OpenAPI tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from service.contracts import DATASET_RULE, DatasetName
from service.errors import InvalidInput
from service.formats import FORMATS
from service.formats.detection import object_format
from service.formats.records import LABEL_FIELDS, WORD_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import QueryParams

WORDS: Final = "words"
AUTO: Final = "auto"
FORMAT_NAMES: Final = (WORDS, *(form.name for form in FORMATS.values() if form.convert is not None), AUTO)
LONGEST_NAME: Final = 256
LONGEST_NAMES: Final = 10_000

_DATASET: Final = TypeAdapter(DatasetName)

PARAMETERS: Final[list[dict[str, Any]]] = [
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
            {"enum": list(FORMAT_NAMES), "default": WORDS},
            "What the records are: sentences (`words`), or what a platform exports; `auto` looks at each record",
        ),
        (
            "dataset",
            {"pattern": _DATASET.json_schema()["pattern"]},
            "Dataset of all records, whatever they say: 1 to 64 lower-case letters, digits, dots, dashes or underscores",
        ),
        (
            "field",
            {"maxLength": LONGEST_NAME, "minLength": 1},
            "Field of the text or of the words, where it can't be told; not with `words`",
        ),
        (
            "control",
            {"maxLength": LONGEST_NAME, "minLength": 1},
            "Control, question or field that holds the spans or labels, where several do; not with `words`",
        ),
        (
            "label_names",
            {"maxLength": LONGEST_NAMES, "minLength": 1},
            "What numbered labels mean, from 0 on, separated by commas: O,B-PER,I-PER; not with `words`",
        ),
    )
]
NAMES: Final = tuple(str(one["name"]) for one in PARAMETERS)
RECORD_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": "PlatformRecord",
    "description": "What a platform exports, with a `format`; the names of fields are the platform's",
    "anyOf": [
        {"required": names}
        for names in (
            ["annotations"],
            ["annotation_id"],
            ["action"],
            ["fields", "responses"],
            ["type", "data"],
            ["text"],
            ["tokens", "ner_tags"],
            ["rows"],
        )
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
class Wanted:
    """What the query says of the records."""

    format: str = WORDS
    dataset: str | None = None
    field: str | None = None
    control: str | None = None
    label_names: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Whether the records are sentences as we write them."""
        return self.format == WORDS


def read_query(query: QueryParams, *, also: Sequence[str] = ()) -> Wanted:
    """What the query says; `also` are the parameters that others read."""
    known = (*NAMES, *also)
    for name in query:
        if name not in known:
            raise InvalidInput(f"there is no such parameter: there are {', '.join(known)}", field=name)
    form = query.get("format", WORDS)
    if form not in FORMAT_NAMES:
        raise InvalidInput(f"{form[:40]!r} is no format: choose one of {', '.join(FORMAT_NAMES)}", field="format")
    dataset = query.get("dataset")
    if dataset is not None:
        check_dataset(dataset)
    for name, most in (("field", LONGEST_NAME), ("control", LONGEST_NAME), ("label_names", LONGEST_NAMES)):
        given = query.get(name)
        if given is None:
            continue
        if form == WORDS:
            raise InvalidInput(
                "it is for the records of platforms: name their `format` too, or leave it out", field=name
            )
        if not 0 < len(given) <= most:
            raise InvalidInput(f"{len(given)} characters: give 1 to {most:,}, or leave it out", field=name)
    names = query.get("label_names")
    return Wanted(
        format=form,
        dataset=dataset,
        field=query.get("field"),
        control=query.get("control"),
        label_names=tuple(name.strip() for name in names.split(",")) if names is not None else (),
    )


def recognised(record: Mapping[str, Any]) -> str | None:
    """The format that a record is in by its fields, if they tell."""
    found = object_format(record)
    if found in FORMAT_NAMES:
        return found
    foreign = (*WORD_FIELDS[1:], *LABEL_FIELDS[1:])
    if any(name in record for name in foreign):
        return "huggingface"
    return WORDS if any(name in record for name in ("tokens", "labels", "deleted")) else None


def check_dataset(name: str) -> None:
    try:
        _DATASET.validate_python(name)
    except ValidationError:
        raise InvalidInput(f"{name[:80]!r} can't be a dataset: {DATASET_RULE}", field="dataset") from None
