"""Reads exports of Label Studio (JSON and JSON-MIN) and stored webhooks.

One annotation is one sentence, `label-studio:ID`. Its revision is `updated_at` in microseconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.conversion import (
    ConvertedFields,
    build_labelled_fields,
    build_reader,
    build_revision_fields,
    check_label_option,
)
from service.formats.io.json_values import require_array, require_integer, require_object, to_name
from service.formats.meta import pack_extra_fields, select_small_fields
from service.formats.platforms.ids import to_task_document
from service.formats.platforms.label_studio.annotations import PLATFORM, convert_annotation, read_annotator
from service.formats.platforms.label_studio.labeling_config import (
    find_control_names,
    is_control_value,
    read_region_span,
)
from service.formats.platforms.label_studio.webhook import convert_stored_event
from service.formats.records import find_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord, ReadOptions
    from service.formats.text.offsets import TextSpan

# What JSON-MIN says about the annotation, beside the task's data and the values of the controls.
_JSON_MIN_FIELDS: Final = frozenset({"annotation_id", "annotator", "created_at", "id", "lead_time", "updated_at"})


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    controls: set[str] = set()

    def convert(record: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
        controls.update(find_control_names(record))
        return from_object(record, options)

    yield from build_reader(convert)(source, options)
    check_label_option(source, options, controls)


def from_object(record: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    """The sentences of an exported task, or of a webhook's body that was stored."""
    if "action" in record:
        return convert_stored_event(record, datetime.now(UTC), options)
    return from_task(record, options)


def from_task(task: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    """The sentences of an exported task, one per annotation; none if nobody has annotated it."""
    if "annotations" not in task and "completions" not in task:
        if "annotation_id" in task:
            yield _convert_json_min(task, options)
            return
        raise InvalidInput("it is missing: export the tasks as JSON", field="annotations")
    name = "annotations" if "annotations" in task else "completions"  # the name up to version 1.0
    for index, value in enumerate(require_array(task[name], name)):
        field = f"{name}.{index}"
        try:
            yield convert_annotation(require_object(value, field), task, field, options, None)
        except InvalidInput as error:
            yield error


def _convert_json_min(task: Mapping[str, Any], options: ReadOptions) -> dict[str, Any]:
    """JSON-MIN puts the fields of the data and the values of the controls side by side."""
    spans: list[TextSpan] = []
    used: list[str] = []
    for name, values in task.items():
        if options.label in (None, name) and is_control_value(values):
            if used:
                raise InvalidInput(f"spans of {used[0]} and of {name}: say which control counts", field=name)
            spans += [read_region_span(value, f"{name}.{index}") for index, value in enumerate(values)]
            used.append(name)
    text_field = options.word or "text"
    fields = build_labelled_fields(task.get(text_field), spans, options, field=text_field)
    fields["id"] = f"{PLATFORM}:{require_integer(task.get('annotation_id'), 'annotation_id')}"
    fields |= build_revision_fields(task.get("updated_at"), "updated_at") | read_annotator(task.get("annotator"))
    task_id = to_name(task.get("id"))
    fields["document"] = find_document(task, text_field=text_field) or to_task_document(PLATFORM, task_id)
    fields["meta"] |= {"format": PLATFORM, "task": task_id}
    if len(used) == 1:
        fields["meta"]["from_name"] = used[0]
    if text_field != "text":
        fields["meta"]["field"] = text_field
    data = {name: value for name, value in task.items() if name not in {*_JSON_MIN_FIELDS, *used, text_field}}
    fields["meta"] |= pack_extra_fields({"data": select_small_fields(data)} if data else {})
    return fields
