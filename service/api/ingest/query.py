"""The query parameters that describe the records of a body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from service.contracts import DATASET_NAME_RULE, DatasetName
from service.contracts.validation import shorten
from service.errors import InvalidInput
from service.formats import FORMATS
from service.formats.detection import detect_object_format
from service.formats.label_names import LABEL_FIELDS
from service.formats.records import WORD_FIELDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.datastructures import QueryParams

WORDS_FORMAT: Final = "words"
AUTO_FORMAT: Final = "auto"
FORMAT_NAMES: Final = (WORDS_FORMAT, *(form.name for form in FORMATS.values() if form.convert is not None), AUTO_FORMAT)
LIST_FIELD: Final = "sentences"
QUERY_PARAMETER_NAMES: Final = ("format", "dataset", "field", "control", "label_names")
MAX_NAME_LENGTH: Final = 256
MAX_LABEL_NAMES_LENGTH: Final = 10_000

_DATASET_NAME: Final = TypeAdapter(DatasetName)
DATASET_NAME_PATTERN: Final[str] = _DATASET_NAME.json_schema()["pattern"]


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """How to read the records of a body."""

    format: str = WORDS_FORMAT
    dataset: str | None = None
    field: str | None = None
    control: str | None = None
    label_names: tuple[str, ...] = ()

    @property
    def is_words_format(self) -> bool:
        """Whether the records are sentences in the service's own format."""
        return self.format == WORDS_FORMAT


def parse_record_query(parameters: QueryParams, *, extra: Sequence[str] = ()) -> RecordQuery:
    """Validates the query. `extra` are further parameters of the route, which it reads itself."""
    known = (*QUERY_PARAMETER_NAMES, *extra)
    for name in parameters:
        if name not in known:
            raise InvalidInput(f"there is no such parameter: there are {', '.join(known)}", field=shorten(name))
    form = parameters.get("format", WORDS_FORMAT)
    if form not in FORMAT_NAMES:
        raise InvalidInput(f"{form[:40]!r} is not a format: choose one of {', '.join(FORMAT_NAMES)}", field="format")
    dataset = parameters.get("dataset")
    if dataset is not None:
        check_dataset_name(dataset)
    for name, max_length in (
        ("field", MAX_NAME_LENGTH),
        ("control", MAX_NAME_LENGTH),
        ("label_names", MAX_LABEL_NAMES_LENGTH),
    ):
        value = parameters.get(name)
        if value is None:
            continue
        if form == WORDS_FORMAT:
            raise InvalidInput(
                "it is for the records of platforms: name their `format` too, or leave it out", field=name
            )
        if not 0 < len(value) <= max_length:
            raise InvalidInput(f"{len(value)} characters: give 1 to {max_length:,}, or leave it out", field=name)
    label_names = parameters.get("label_names")
    return RecordQuery(
        format=form,
        dataset=dataset,
        field=parameters.get("field"),
        control=parameters.get("control"),
        label_names=tuple(name.strip() for name in label_names.split(",")) if label_names is not None else (),
    )


def detect_record_format(record: Mapping[str, Any]) -> str | None:
    """The format of a record by its fields; None if they fit no format."""
    form = detect_object_format(record)
    if form in FORMAT_NAMES:
        return form
    foreign = (*WORD_FIELDS[1:], *LABEL_FIELDS[1:])
    if any(name in record for name in foreign):
        return "huggingface"
    return WORDS_FORMAT if any(name in record for name in ("tokens", "labels", "deleted")) else None


def check_dataset_name(name: str) -> None:
    try:
        _DATASET_NAME.validate_python(name)
    except ValidationError:
        raise InvalidInput(f"{name[:80]!r} can't be a dataset: {DATASET_NAME_RULE}", field="dataset") from None
