"""The span controls of a Label Studio project, and the spans that annotations have of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.io.json_values import require_array, require_integer, require_label, require_object
from service.formats.text.offsets import TextSpan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.formats.records import ReadOptions

CONFIG_FIELD: Final = "project.parsed_label_config"
# Results about the task or about other results, which label no words.
NON_SPAN_RESULT_TYPES: Final = frozenset(
    {"choices", "datetime", "number", "pairwise", "ranker", "rating", "relation", "taxonomy", "textarea"}
)
_SPAN_RESULT_TYPE: Final = "labels"


@dataclass(frozen=True, slots=True)
class SpanControl:
    """A `Labels` tag of the project's labelling interface, and the field of its text."""

    name: str
    to_name: str
    text_field: str
    labels: tuple[str, ...]


def parse_span_controls(config: object) -> list[SpanControl]:
    """The span controls over text in a `parsed_label_config`."""
    controls = []
    for name, control in config.items() if isinstance(config, dict) else ():
        if not isinstance(control, dict) or control.get("type") != "Labels":
            continue
        inputs, to_name, labels = (control.get(key) for key in ("inputs", "to_name", "labels"))
        first = inputs[0] if isinstance(inputs, list) and inputs else None
        if not isinstance(first, dict) or first.get("type") != "Text" or first.get("valueType") == "url":
            continue
        if isinstance(to_name, list) and to_name and isinstance(labels, list):
            field = str(first.get("value") or "").removeprefix("$")
            controls.append(SpanControl(str(name), str(to_name[0]), field, tuple(map(str, labels))))
    return controls


def choose_control(controls: Sequence[SpanControl], used: str | None, options: ReadOptions) -> SpanControl | None:
    """The control of `options`, else the one of the spans, else the project's only one; None if it is ambiguous."""
    name = options.label or used
    chosen = next((control for control in controls if control.name == name), None)
    if chosen is None and controls and options.label is not None:
        names = ", ".join(control.name for control in controls)
        raise InvalidInput(f"there is no control {name} for spans of a text, only {names}", field=CONFIG_FIELD)
    return chosen or (controls[0] if len(controls) == 1 else None)


def choose_text_field(controls: Sequence[SpanControl], control: SpanControl | None, options: ReadOptions) -> str:
    """The field of the text; raises if the project has several and nothing says which."""
    if options.word is not None:
        return options.word
    fields = sorted({candidate.text_field for candidate in ([control] if control else controls)})
    if len(fields) > 1:
        raise InvalidInput(f"its controls are about {', '.join(fields)}: say which control counts", field=CONFIG_FIELD)
    return (fields[0] if fields else "") or "text"


def read_result_spans(result: object, field: str, options: ReadOptions) -> tuple[list[TextSpan], str | None]:
    """The labelled spans, and the name of their control."""
    spans: list[TextSpan] = []
    used: str | None = None
    for index, value in enumerate(require_array(result, field)):
        region_field = f"{field}.{index}"
        region = require_object(value, region_field)
        kind = str(region.get("type"))
        if kind in NON_SPAN_RESULT_TYPES:
            continue
        if kind != _SPAN_RESULT_TYPE:
            raise InvalidInput(f"a result of type {kind[:40]!r}: only labels over text are read", field=region_field)
        name = region.get("from_name")
        if options.label is not None and name != options.label:
            continue
        if used not in (None, name):
            raise InvalidInput(f"spans of {used} and of {name}: say which control counts", field=region_field)
        used = str(name)
        span = require_object(region.get("value"), f"{region_field}.value")
        spans.append(read_region_span(span, f"{region_field}.value"))
    return spans, used


def read_region_span(value: Mapping[str, Any], field: str) -> TextSpan:
    text = value.get("text")
    return TextSpan(
        require_integer(value.get("start"), f"{field}.start"),
        require_integer(value.get("end"), f"{field}.end"),
        require_label(value.get("labels"), f"{field}.labels"),
        field,
        text if isinstance(text, str) else None,
    )


def find_to_name(result: object) -> str | None:
    regions = result if isinstance(result, list) else []
    names = (region.get("to_name") for region in regions if region.get("type") == _SPAN_RESULT_TYPE)
    return next((str(name) for name in names if name), None)


def find_control_names(task: Mapping[str, Any]) -> set[str]:
    """The names of the controls of an exported task's spans. Works for invalid tasks too."""
    if "annotation_id" in task:
        return {name for name, values in task.items() if is_control_value(values)}
    annotations = [
        annotation
        for name in ("annotations", "completions")
        if isinstance(task.get(name), list)
        for annotation in task[name]
    ]
    results = [annotation.get("result") for annotation in annotations if isinstance(annotation, dict)]
    regions = [
        region for result in results if isinstance(result, list) for region in result if isinstance(region, dict)
    ]
    return {str(region.get("from_name")) for region in regions if region.get("type") == _SPAN_RESULT_TYPE}


def is_control_value(values: object) -> bool:
    """Whether a value of JSON-MIN belongs to a control; an empty list may be the task's own."""
    if not isinstance(values, list) or not values:
        return False
    return all(isinstance(value, dict) and "labels" in value for value in values)
