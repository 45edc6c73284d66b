"""Tasks as Label Studio sends them to a model: the sentence to judge or to label, and the control that its spans are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.errors import InvalidInput
from service.formats.io.json_values import require_object, require_text, to_name
from service.formats.platforms.label_studio.annotations import convert_annotation
from service.formats.platforms.label_studio.labeling_config import SpanControl, parse_span_controls
from service.formats.platforms.label_studio.labeling_xml import parse_labeling_xml
from service.formats.records import build_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.contracts import LabelledSentence
    from service.formats.records import ReadOptions

# An annotation without spans, for tasks that have none.
_NO_ANNOTATION: Final = {"id": 0, "result": []}


class LabelingInterface(NamedTuple):
    """The labelling interface of a project: its only control for spans, and the `parsed_label_config`."""

    control: SpanControl
    config: dict[str, Any]

    @property
    def label_set(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.control.labels))


class Task(NamedTuple):
    """The sentence of a task. Without annotations all its labels are `O`, and `is_annotated` is false."""

    sentence: LabelledSentence
    is_annotated: bool


def parse_labeling_interface(xml: object, field: str) -> LabelingInterface:
    """Raises `InvalidInput` unless the XML has one control for spans of a text, with labels."""
    config = parse_labeling_xml(require_text(xml, field), field=field)
    controls = parse_span_controls(config)
    if not controls:
        raise InvalidInput("it has no <Labels> control over a <Text>: add one to the labelling interface", field=field)
    if len(controls) > 1:
        names = ", ".join(control.name for control in controls)
        raise InvalidInput(
            f"it has several controls for spans, {names}: keep one, or connect a webhook with `&control=NAME` instead",
            field=field,
        )
    if not controls[0].labels:
        raise InvalidInput(f"the control {controls[0].name} has no <Label>: name the labels there", field=field)
    return LabelingInterface(controls[0], config)


def convert_task(value: object, field: str, interface: LabelingInterface, dataset: str, options: ReadOptions) -> Task:
    """The task with its newest annotation or draft. `field` is the task's path in the request."""
    task = require_object(value, field)
    annotations = list(_list_annotations(task, field))
    name, annotation = max(annotations, key=_get_time) if annotations else (field, _NO_ANNOTATION)
    fields = convert_annotation(annotation, task, name, options, interface.config)
    if annotation is _NO_ANNOTATION:
        fields["id"] = f"task-{to_name(task.get('id'))}"
    elif ".drafts." in name:
        fields["id"] = f"draft-{to_name(annotation.get('id'))}"
    return Task(build_sentence({**fields, "dataset": dataset}, options), is_annotated=bool(annotations))


def _list_annotations(task: Mapping[str, Any], field: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Annotations and drafts that were not skipped, each with its path."""
    for kind in ("annotations", "drafts"):
        values = task.get(kind)
        for index, value in enumerate(values if isinstance(values, list) else ()):
            if isinstance(value, dict) and value.get("was_cancelled") is not True:
                yield f"{field}.{kind}.{index}", value


def _get_time(named: tuple[str, Mapping[str, Any]]) -> str:
    """ISO 8601 in UTC, as Label Studio writes all times: the order of the text is that of the times."""
    return str(named[1].get("updated_at") or named[1].get("created_at") or "")
