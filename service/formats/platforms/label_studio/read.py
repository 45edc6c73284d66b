"""Label Studio: webhooks and exports (JSON and JSON-MIN) in.

One annotation is one sentence, `label-studio:ID`; its revision is `updated_at` in microseconds. An annotation that was
skipped (`was_cancelled`) says nothing of the words: it becomes `deleted`, which closes an item that may be open. Of a
task that is gone Label Studio names the task alone: `label-studio:task:ID` is `deleted`, and stands for all of it.
Webhooks without payload and events about anything but annotations are answered and ignored.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from service.contracts import LabelledSentence, read_sentence
from service.errors import InvalidInput
from service.formats.platforms.common import (
    ConvertedEvent,
    ConvertedFields,
    build_converted_event,
    build_labelled_fields,
    build_reader,
    build_revision_fields,
    check_label_option,
    normalize_base_url,
    pack_extra_fields,
    quote_for_url,
    require_array,
    require_object,
    select_small_fields,
    to_microseconds,
    to_name,
)
from service.formats.platforms.label_studio.labeling_config import (
    CONFIG_FIELD,
    NON_SPAN_RESULT_TYPES,
    choose_control,
    choose_text_field,
    find_control_names,
    find_to_name,
    is_control_value,
    parse_span_controls,
    read_region_span,
    read_result_spans,
)
from service.formats.records import ReadOptions
from service.formats.text.alignment import TextSpan, require_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from service.formats.io.source import TextSource
    from service.formats.records import FileRecord

PLATFORM: Final = "label-studio"
ANNOTATION_CREATED_ACTIONS: Final = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED")
ANNOTATION_UPDATED: Final = "ANNOTATION_UPDATED"
ANNOTATIONS_DELETED: Final = "ANNOTATIONS_DELETED"
TASKS_DELETED: Final = "TASKS_DELETED"
# The part of each event's body that tells what it is about.
_PAYLOAD_KEYS: Final = {
    **dict.fromkeys((*ANNOTATION_CREATED_ACTIONS, ANNOTATION_UPDATED), "annotation"),
    ANNOTATIONS_DELETED: "annotations",
    TASKS_DELETED: "tasks",
}
NO_PAYLOAD: Final = "the event has no payload: switch `Send payload` on in the webhook's settings"
# What JSON-MIN says of the annotation, beside the task's data and the controls' values.
_JSON_MIN_FIELDS: Final = frozenset({"annotation_id", "annotator", "created_at", "id", "lead_time", "updated_at"})


# -- webhooks ----------------------------------------------------------------------------------------------------------


def from_event(
    event: Mapping[str, Any],
    *,
    received_at: datetime,
    dataset: str = "default",
    options: ReadOptions | None = None,
) -> ConvertedEvent:
    """The messages of a webhook's body. A deletion names no time: it is as old as its arrival."""
    options = options or ReadOptions()
    action = event.get("action")
    if not isinstance(action, str):
        raise InvalidInput("it is missing: is this a webhook of Label Studio?", field="action")
    if action not in _PAYLOAD_KEYS:
        return ConvertedEvent(action, ignored_reason="only annotations that are created, updated or deleted count")
    key = _PAYLOAD_KEYS[action]
    if key not in event:
        return ConvertedEvent(action, ignored_reason=NO_PAYLOAD)
    converted = list(_convert_event(event, action, received_at, options))
    nothing = "it names none" if key.endswith("s") else "skipped by the annotator"
    ignored = None if converted else nothing
    found = build_converted_event(
        action, converted, dataset=dataset, max_words=options.max_words, ignored_reason=ignored
    )
    if action != TASKS_DELETED:
        return found
    return replace(found, deleted_tasks=tuple(str((sentence.meta or {})["task"]) for sentence in found.sentences))


def _convert_event(
    event: Mapping[str, Any], action: str, received_at: datetime, options: ReadOptions
) -> Iterator[ConvertedFields]:
    if action == ANNOTATIONS_DELETED:
        for place, gone in enumerate(require_array(event["annotations"], "annotations")):
            field = f"annotations.{place}"
            yield _build_deletion(_build_sentence_id(require_object(gone, field), field), received_at)
        return
    project = event.get("project")
    if action == TASKS_DELETED:
        for place, gone in enumerate(require_array(event["tasks"], "tasks")):
            number = str(require_integer(require_object(gone, f"tasks.{place}").get("id"), f"tasks.{place}.id"))
            of = to_name(project.get("id")) if isinstance(project, dict) else None
            about = {"task": number} | ({} if of is None else {"project": of})
            yield _build_deletion(f"{PLATFORM}:task:{number}", received_at, **about)
        return
    config = project.get("parsed_label_config") if isinstance(project, dict) else None
    many = isinstance(event["annotation"], list)
    annotations = event["annotation"] if many else [event["annotation"]]
    for place, given in enumerate(annotations):
        field = f"annotation.{place}" if many else "annotation"
        try:
            annotation = require_object(given, field)
            task = _find_task(event.get("task"), annotation)
            if action in ANNOTATION_CREATED_ACTIONS and annotation.get("was_cancelled") is True:
                continue
            fields = _convert_annotation(annotation, task, field, options, config)
        except InvalidInput as error:
            yield error  # the others of a bulk may be right, and the event does not come again
        else:
            yield fields | {"update": True} if action == ANNOTATION_UPDATED else fields


def build_deletions(ids: Iterable[str], *, received_at: datetime, dataset: str) -> tuple[LabelledSentence, ...]:
    """For annotations that went with their task."""
    return tuple(read_sentence({**_build_deletion(one, received_at), "dataset": dataset}) for one in ids)


def _build_deletion(identity: str, at: datetime, **about: str) -> dict[str, Any]:
    return {"id": identity, "deleted": True, "revision": to_microseconds(at), "meta": {"format": PLATFORM, **about}}


def _find_task(tasks: object, annotation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The task itself, or of several the one that the annotation names."""
    if not isinstance(tasks, list):
        return require_object(tasks, "task")
    for task in tasks:
        if isinstance(task, dict) and task.get("id") == annotation.get("task"):
            return task
    raise InvalidInput(f"none is the annotation's task {annotation.get('task')}", field="task")


# -- exports -----------------------------------------------------------------------------------------------------------


def from_task(task: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    """The sentences of an exported task, one an annotation; none where nobody has annotated it."""
    if "annotations" not in task and "completions" not in task:
        if "annotation_id" in task:
            yield _convert_json_min(task, options)
            return
        raise InvalidInput("it is missing: export the tasks as JSON", field="annotations")
    name = "annotations" if "annotations" in task else "completions"  # as it was called up to version 1.0
    for place, given in enumerate(require_array(task[name], name)):
        field = f"{name}.{place}"
        try:
            yield _convert_annotation(require_object(given, field), task, field, options, None)
        except InvalidInput as error:
            yield error


def _convert_json_min(task: Mapping[str, Any], options: ReadOptions) -> dict[str, Any]:
    """JSON-MIN: the data's fields and the controls' values side by side."""
    spans: list[TextSpan] = []
    used: list[str] = []
    for name, values in task.items():
        if options.label in (None, name) and is_control_value(values):
            if used:
                raise InvalidInput(f"spans of {used[0]} and of {name}: say which control counts", field=name)
            spans += [read_region_span(value, f"{name}.{place}") for place, value in enumerate(values)]
            used.append(name)
    text = options.word or "text"
    fields = build_labelled_fields(task.get(text), spans, options, field=text)
    fields["id"] = f"{PLATFORM}:{require_integer(task.get('annotation_id'), 'annotation_id')}"
    fields |= build_revision_fields(task.get("updated_at"), "updated_at") | _read_annotator(task.get("annotator"))
    fields["meta"] |= {"format": PLATFORM, "task": to_name(task.get("id"))}
    if len(used) == 1:
        fields["meta"]["from_name"] = used[0]
    if text != "text":
        fields["meta"]["field"] = text
    data = {name: value for name, value in task.items() if name not in {*_JSON_MIN_FIELDS, *used, text}}
    fields["meta"] |= pack_extra_fields({"data": select_small_fields(data)} if data else {})
    return fields


def from_object(record: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    """A line of a file: an exported task, or a webhook's body as somebody kept it."""
    if "action" not in record:
        yield from from_task(record, options)
        return
    action = str(record["action"])
    if _PAYLOAD_KEYS.get(action) in record:
        yield from _convert_event(record, action, datetime.now(UTC), options)


# -- both --------------------------------------------------------------------------------------------------------------


def _convert_annotation(
    annotation: Mapping[str, Any], task: Mapping[str, Any], field: str, options: ReadOptions, config: object
) -> dict[str, Any]:
    about: dict[str, Any] = {"format": PLATFORM}
    fields: dict[str, Any] = {"id": _build_sentence_id(annotation, field)}
    fields |= build_revision_fields(annotation.get("updated_at") or annotation.get("created_at"), f"{field}.updated_at")
    fields |= _read_annotator(annotation.get("completed_by"))
    project, task_id = (to_name(value) for value in (annotation.get("project") or task.get("project"), task.get("id")))
    if options.base_url is not None and project and task_id:
        fields["source"] = (
            f"{normalize_base_url(options.base_url)}/projects/{quote_for_url(project)}/data?task={quote_for_url(task_id)}"
        )
    if annotation.get("was_cancelled") is True:
        return {**fields, "deleted": True, "meta": about | {"cancelled": True}}
    known = parse_span_controls(config)
    if config and not known:
        raise InvalidInput("the project has no labels for spans of a text", field=CONFIG_FIELD)
    spans, used = read_result_spans(annotation.get("result"), f"{field}.result", options)
    control = choose_control(known, used, options)
    name = choose_text_field(known, control, options)
    data = require_object(task.get("data"), "task.data")
    if name not in data:
        there = ", ".join(list(data)[:10])
        raise InvalidInput(f"no {name} in it, only {there}: name the field of the text", field="task.data")
    fields |= build_labelled_fields(data[name], spans, options, field=f"task.data.{name}")
    about |= {
        "project": project,
        "task": task_id,
        "from_name": used or (control.name if control else None),
        "to_name": control.to_name if control else find_to_name(annotation.get("result")),
        "field": name if name != "text" else None,
    }
    fields["meta"] |= {part: value for part, value in about.items() if value is not None}
    fields["meta"] |= _collect_extra_fields(annotation, task, data, name)
    return fields


def _collect_extra_fields(
    annotation: Mapping[str, Any], task: Mapping[str, Any], data: Mapping[str, Any], text: str
) -> dict[str, Any]:
    """What an export must say again. Results that hang on a span by its id can't come back: spans may be others then."""
    alone = [
        one
        for one in annotation.get("result") or ()
        if one.get("type") in NON_SPAN_RESULT_TYPES
        and one.get("type") != "relation"
        and isinstance(one.get("value"), dict)
        and not {"start", "parentID"} & {*one, *one["value"]}
    ]
    others = {
        "data": select_small_fields({name: value for name, value in data.items() if name != text}),
        "meta": task.get("meta"),
        "result": alone,
        "ground_truth": annotation.get("ground_truth"),
    }
    return pack_extra_fields({name: value for name, value in others.items() if value})


def _build_sentence_id(annotation: Mapping[str, Any], field: str) -> str:
    return f"{PLATFORM}:{require_integer(annotation.get('id'), f'{field}.id')}"


def _read_annotator(value: object) -> dict[str, Any]:
    """The annotator's address where the export has it, else the number."""
    if isinstance(value, dict):
        value = value.get("email") or value.get("username") or value.get("id")
    name = to_name(value)
    return {} if name is None else {"annotator": name[:256]}


def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
    met: set[str] = set()

    def convert(found: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
        met.update(find_control_names(found))
        return from_object(found, options)

    yield from build_reader(convert)(source, options)
    check_label_option(source, options, met)
