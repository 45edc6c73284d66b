"""Converts one annotation of Label Studio to the fields of a sentence, as webhooks and exports hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.errors import InvalidInput
from service.formats.conversion import build_labelled_fields, build_revision_fields
from service.formats.io.json_values import require_integer, require_object, to_name
from service.formats.meta import pack_extra_fields, select_small_fields
from service.formats.platforms.ids import to_task_document
from service.formats.platforms.label_studio.labeling_config import (
    CONFIG_FIELD,
    NON_SPAN_RESULT_TYPES,
    choose_control,
    choose_text_field,
    find_to_name,
    parse_span_controls,
    read_result_spans,
)
from service.formats.platforms.links import normalize_base_url, quote_for_url
from service.formats.records import find_batch, find_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.formats.records import ReadOptions

PLATFORM: Final = "label-studio"


def convert_annotation(
    annotation: Mapping[str, Any], task: Mapping[str, Any], field: str, options: ReadOptions, config: object
) -> dict[str, Any]:
    """The fields of a sentence. `field` is the annotation's path, `config` the project's `parsed_label_config`."""
    meta: dict[str, Any] = {"format": PLATFORM}
    fields: dict[str, Any] = {"id": build_sentence_id(annotation, field)}
    fields |= build_revision_fields(annotation.get("updated_at") or annotation.get("created_at"), f"{field}.updated_at")
    fields |= read_annotator(annotation.get("completed_by"))
    project = to_name(annotation.get("project") or task.get("project"))
    task_id = to_name(task.get("id"))
    if options.base_url is not None and project and task_id:
        base = normalize_base_url(options.base_url)
        fields["source"] = f"{base}/projects/{quote_for_url(project)}/data?task={quote_for_url(task_id)}"
    if annotation.get("was_cancelled") is True:
        fields["document"] = find_task_document(task, task_id, options.word)
        return {**fields, "deleted": True, "meta": meta | {"cancelled": True}}
    controls = parse_span_controls(config)
    if config and not controls:
        raise InvalidInput("the project has no labels for spans of a text", field=CONFIG_FIELD)
    spans, used = read_result_spans(annotation.get("result"), f"{field}.result", options)
    control = choose_control(controls, used, options)
    text_field = choose_text_field(controls, control, options)
    data = require_object(task.get("data"), "task.data")
    if text_field not in data:
        names = ", ".join(list(data)[:10])
        raise InvalidInput(f"no {text_field} in it, only {names}: name the field of the text", field="task.data")
    fields["document"] = find_task_document(task, task_id, text_field)
    fields["batch"] = find_batch(task.get("data"), task.get("meta"))
    fields |= build_labelled_fields(data[text_field], spans, options, field=f"task.data.{text_field}")
    meta |= {
        "project": project,
        "task": task_id,
        "from_name": used or (control.name if control else None),
        "to_name": control.to_name if control else find_to_name(annotation.get("result")),
        "field": text_field if text_field != "text" else None,
    }
    fields["meta"] |= {key: value for key, value in meta.items() if value is not None}
    fields["meta"] |= _collect_extra_fields(annotation, task, data, text_field)
    return fields


def _collect_extra_fields(
    annotation: Mapping[str, Any], task: Mapping[str, Any], data: Mapping[str, Any], text_field: str
) -> dict[str, Any]:
    """What an export must write again. Results that refer to a span's id are dropped: exported spans get new ids."""
    task_results = [
        result
        for result in annotation.get("result") or ()
        if result.get("type") in NON_SPAN_RESULT_TYPES
        and result.get("type") != "relation"
        and isinstance(result.get("value"), dict)
        and not {"start", "parentID"} & {*result, *result["value"]}
    ]
    extra = {
        "data": select_small_fields({name: value for name, value in data.items() if name != text_field}),
        "meta": task.get("meta"),
        "result": task_results,
        "ground_truth": annotation.get("ground_truth"),
    }
    return pack_extra_fields({name: value for name, value in extra.items() if value})


def find_task_document(task: Mapping[str, Any], task_id: str | None, text_field: str | None) -> str | None:
    """The document that the task's data or meta names, else the task itself: it may have several annotations."""
    named = find_document(task.get("data"), task.get("meta"), text_field=text_field)
    return named or to_task_document(PLATFORM, task_id)


def build_sentence_id(annotation: Mapping[str, Any], field: str) -> str:
    return f"{PLATFORM}:{require_integer(annotation.get('id'), f'{field}.id')}"


def read_annotator(value: object) -> dict[str, Any]:
    """The annotator's email address if the export has it, else the number."""
    if isinstance(value, dict):
        value = value.get("email") or value.get("username") or value.get("id")
    name = to_name(value)
    return {} if name is None else {"annotator": name[:256]}
