"""The controls for spans in a project of Label Studio, and the spans that annotations have of them."""

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
# Results that are about the task or about other results, and say nothing of words.
NON_SPAN_RESULT_TYPES: Final = frozenset(
    {"choices", "datetime", "number", "pairwise", "ranker", "rating", "relation", "taxonomy", "textarea"}
)
_SPAN_RESULT_TYPE: Final = "labels"


@dataclass(frozen=True, slots=True)
class SpanControl:
    """A `Labels` tag of the project's labelling interface, and the field of the text it is about."""

    name: str
    to_name: str
    text_field: str
    labels: tuple[str, ...]


def parse_span_controls(config: object) -> list[SpanControl]:
    """The span controls over text in a `parsed_label_config`."""
    found = []
    for name, control in config.items() if isinstance(config, dict) else ():
        if not isinstance(control, dict) or control.get("type") != "Labels":
            continue
        inputs, to_name, labels = (control.get(key) for key in ("inputs", "to_name", "labels"))
        first = inputs[0] if isinstance(inputs, list) and inputs else None
        if not isinstance(first, dict) or first.get("type") != "Text" or first.get("valueType") == "url":
            continue
        if isinstance(to_name, list) and to_name and isinstance(labels, list):
            field = str(first.get("value") or "").removeprefix("$")
            found.append(SpanControl(str(name), str(to_name[0]), field, tuple(map(str, labels))))
    return found


def choose_control(known: Sequence[SpanControl], used: str | None, options: ReadOptions) -> SpanControl | None:
    """The control that counts: the one that was asked for, else the one of the spans; none where nothing tells it."""
    named = options.label or used
    found = next((one for one in known if one.name == named), None)
    if found is None and known and options.label is not None:
        there = ", ".join(one.name for one in known)
        raise InvalidInput(f"there is no control {named} for spans of a text, only {there}", field=CONFIG_FIELD)
    return found or (known[0] if len(known) == 1 else None)


def choose_text_field(known: Sequence[SpanControl], control: SpanControl | None, options: ReadOptions) -> str:
    """The field of the text: never a guess where the project has several."""
    if options.word is not None:
        return options.word
    fields = sorted({one.text_field for one in ([control] if control else known)})
    if len(fields) > 1:
        raise InvalidInput(f"its controls are about {', '.join(fields)}: say which control counts", field=CONFIG_FIELD)
    return (fields[0] if fields else "") or "text"


def read_result_spans(result: object, field: str, options: ReadOptions) -> tuple[list[TextSpan], str | None]:
    """The labelled spans, and the control that all of them are of."""
    spans: list[TextSpan] = []
    used: str | None = None
    for place, item in enumerate(require_array(result, field)):
        where = f"{field}.{place}"
        region = require_object(item, where)
        kind = str(region.get("type"))
        if kind in NON_SPAN_RESULT_TYPES:
            continue
        if kind != _SPAN_RESULT_TYPE:
            raise InvalidInput(f"a result of type {kind[:40]!r}: only labels over text are read", field=where)
        name = region.get("from_name")
        if options.label is not None and name != options.label:
            continue
        if used not in (None, name):
            raise InvalidInput(f"spans of {used} and of {name}: say which control counts", field=where)
        used = str(name)
        spans.append(read_region_span(require_object(region.get("value"), f"{where}.value"), f"{where}.value"))
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
    return next((str(r["to_name"]) for r in regions if r.get("type") == _SPAN_RESULT_TYPE and r.get("to_name")), None)


def find_control_names(task: Mapping[str, Any]) -> set[str]:
    """The controls of an exported task's spans, whatever else is wrong with it."""
    if "annotation_id" in task:
        return {name for name, values in task.items() if is_control_value(values)}
    annotations = [
        one for name in ("annotations", "completions") if isinstance(task.get(name), list) for one in task[name]
    ]
    results = [one.get("result") for one in annotations if isinstance(one, dict)]
    regions = [
        region for result in results if isinstance(result, list) for region in result if isinstance(region, dict)
    ]
    return {str(region.get("from_name")) for region in regions if region.get("type") == _SPAN_RESULT_TYPE}


def is_control_value(values: object) -> bool:
    """Whether a value of JSON-MIN is a control's; an empty list may be the task's own."""
    return isinstance(values, list) and bool(values) and all(isinstance(v, dict) and "labels" in v for v in values)
