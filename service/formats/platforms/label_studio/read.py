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
    Converted,
    Delivery,
    check_named,
    dated,
    delivered,
    kept,
    labelled,
    link_base,
    listing,
    mapping,
    microseconds,
    name_of,
    quoted,
    reader,
    small,
)
from service.formats.platforms.label_studio.labeling_config import (
    BESIDES,
    CONFIG,
    control_of,
    controls,
    is_spans,
    names_of,
    span_of,
    spans_of,
    text_field,
    to_name_of,
)
from service.formats.records import Options
from service.formats.text.alignment import TextSpan, integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from service.formats.io.source import Source
    from service.formats.records import Record

PLATFORM: Final = "label-studio"
CREATED: Final = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED")
UPDATED: Final = "ANNOTATION_UPDATED"
DELETED: Final = "ANNOTATIONS_DELETED"
TASKS_DELETED: Final = "TASKS_DELETED"
# The part of each event's body that tells what it is about.
_PAYLOAD: Final = {
    **dict.fromkeys((*CREATED, UPDATED), "annotation"),
    DELETED: "annotations",
    TASKS_DELETED: "tasks",
}
NO_PAYLOAD: Final = "the event has no payload: switch `Send payload` on in the webhook's settings"
# What JSON-MIN says of the annotation, beside the task's data and the controls' values.
_MINIMAL: Final = frozenset({"annotation_id", "annotator", "created_at", "id", "lead_time", "updated_at"})


# -- webhooks ----------------------------------------------------------------------------------------------------------


def from_event(
    event: Mapping[str, Any],
    *,
    received_at: datetime,
    dataset: str = "default",
    options: Options | None = None,
) -> Delivery:
    """The messages of a webhook's body. A deletion names no time: it is as old as its arrival."""
    options = options or Options()
    action = event.get("action")
    if not isinstance(action, str):
        raise InvalidInput("it is missing: is this a webhook of Label Studio?", field="action")
    if action not in _PAYLOAD:
        return Delivery(action, ignored="only annotations that are created, updated or deleted count")
    key = _PAYLOAD[action]
    if key not in event:
        return Delivery(action, ignored=NO_PAYLOAD)
    converted = list(_event_sentences(event, action, received_at, options))
    nothing = "it names none" if key.endswith("s") else "skipped by the annotator"
    ignored = None if converted else nothing
    found = delivered(action, converted, dataset=dataset, max_words=options.max_words, ignored=ignored)
    if action != TASKS_DELETED:
        return found
    return replace(found, tasks=tuple(str((sentence.meta or {})["task"]) for sentence in found.sentences))


def _event_sentences(
    event: Mapping[str, Any], action: str, received_at: datetime, options: Options
) -> Iterator[Converted]:
    if action == DELETED:
        for place, gone in enumerate(listing(event["annotations"], "annotations")):
            field = f"annotations.{place}"
            yield _gone(_identity(mapping(gone, field), field), received_at)
        return
    project = event.get("project")
    if action == TASKS_DELETED:
        for place, gone in enumerate(listing(event["tasks"], "tasks")):
            number = str(integer(mapping(gone, f"tasks.{place}").get("id"), f"tasks.{place}.id"))
            of = name_of(project.get("id")) if isinstance(project, dict) else None
            about = {"task": number} | ({} if of is None else {"project": of})
            yield _gone(f"{PLATFORM}:task:{number}", received_at, **about)
        return
    config = project.get("parsed_label_config") if isinstance(project, dict) else None
    many = isinstance(event["annotation"], list)
    annotations = event["annotation"] if many else [event["annotation"]]
    for place, given in enumerate(annotations):
        field = f"annotation.{place}" if many else "annotation"
        try:
            annotation = mapping(given, field)
            task = _task_of(event.get("task"), annotation)
            if action in CREATED and annotation.get("was_cancelled") is True:
                continue
            fields = _sentence(annotation, task, field, options, config)
        except InvalidInput as error:
            yield error  # the others of a bulk may be right, and the event does not come again
        else:
            yield fields | {"update": True} if action == UPDATED else fields


def deletions(identities: Iterable[str], *, received_at: datetime, dataset: str) -> tuple[LabelledSentence, ...]:
    """For annotations that went with their task."""
    return tuple(read_sentence({**_gone(one, received_at), "dataset": dataset}) for one in identities)


def _gone(identity: str, at: datetime, **about: str) -> dict[str, Any]:
    return {"id": identity, "deleted": True, "revision": microseconds(at), "meta": {"format": PLATFORM, **about}}


def _task_of(tasks: object, annotation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The task itself, or of several the one that the annotation names."""
    if not isinstance(tasks, list):
        return mapping(tasks, "task")
    for task in tasks:
        if isinstance(task, dict) and task.get("id") == annotation.get("task"):
            return task
    raise InvalidInput(f"none is the annotation's task {annotation.get('task')}", field="task")


# -- exports -----------------------------------------------------------------------------------------------------------


def from_task(task: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    """The sentences of an exported task, one an annotation; none where nobody has annotated it."""
    if "annotations" not in task and "completions" not in task:
        if "annotation_id" in task:
            yield _minimal(task, options)
            return
        raise InvalidInput("it is missing: export the tasks as JSON", field="annotations")
    name = "annotations" if "annotations" in task else "completions"  # as it was called up to version 1.0
    for place, given in enumerate(listing(task[name], name)):
        field = f"{name}.{place}"
        try:
            yield _sentence(mapping(given, field), task, field, options, None)
        except InvalidInput as error:
            yield error


def _minimal(task: Mapping[str, Any], options: Options) -> dict[str, Any]:
    """JSON-MIN: the data's fields and the controls' values side by side."""
    spans: list[TextSpan] = []
    used: list[str] = []
    for name, values in task.items():
        if options.label in (None, name) and is_spans(values):
            if used:
                raise InvalidInput(f"spans of {used[0]} and of {name}: say which control counts", field=name)
            spans += [span_of(value, f"{name}.{place}") for place, value in enumerate(values)]
            used.append(name)
    text = options.word or "text"
    fields = labelled(task.get(text), spans, options, field=text)
    fields["id"] = f"{PLATFORM}:{integer(task.get('annotation_id'), 'annotation_id')}"
    fields |= dated(task.get("updated_at"), "updated_at") | _annotator(task.get("annotator"))
    fields["meta"] |= {"format": PLATFORM, "task": name_of(task.get("id"))}
    if len(used) == 1:
        fields["meta"]["from_name"] = used[0]
    if text != "text":
        fields["meta"]["field"] = text
    data = {name: value for name, value in task.items() if name not in {*_MINIMAL, *used, text}}
    fields["meta"] |= kept({"data": small(data)} if data else {})
    return fields


def from_object(found: Mapping[str, Any], options: Options) -> Iterator[Converted]:
    """A line of a file: an exported task, or a webhook's body as somebody kept it."""
    if "action" not in found:
        yield from from_task(found, options)
        return
    action = str(found["action"])
    if _PAYLOAD.get(action) in found:
        yield from _event_sentences(found, action, datetime.now(UTC), options)


# -- both --------------------------------------------------------------------------------------------------------------


def _sentence(
    annotation: Mapping[str, Any], task: Mapping[str, Any], field: str, options: Options, config: object
) -> dict[str, Any]:
    about: dict[str, Any] = {"format": PLATFORM}
    fields: dict[str, Any] = {"id": _identity(annotation, field)}
    fields |= dated(annotation.get("updated_at") or annotation.get("created_at"), f"{field}.updated_at")
    fields |= _annotator(annotation.get("completed_by"))
    project, task_id = (name_of(value) for value in (annotation.get("project") or task.get("project"), task.get("id")))
    if options.base_url is not None and project and task_id:
        fields["source"] = f"{link_base(options.base_url)}/projects/{quoted(project)}/data?task={quoted(task_id)}"
    if annotation.get("was_cancelled") is True:
        return {**fields, "deleted": True, "meta": about | {"cancelled": True}}
    known = controls(config)
    if config and not known:
        raise InvalidInput("the project has no labels for spans of a text", field=CONFIG)
    spans, used = spans_of(annotation.get("result"), f"{field}.result", options)
    control = control_of(known, used, options)
    name = text_field(known, control, options)
    data = mapping(task.get("data"), "task.data")
    if name not in data:
        there = ", ".join(list(data)[:10])
        raise InvalidInput(f"no {name} in it, only {there}: name the field of the text", field="task.data")
    fields |= labelled(data[name], spans, options, field=f"task.data.{name}")
    about |= {
        "project": project,
        "task": task_id,
        "from_name": used or (control.name if control else None),
        "to_name": control.to_name if control else to_name_of(annotation.get("result")),
        "field": name if name != "text" else None,
    }
    fields["meta"] |= {part: value for part, value in about.items() if value is not None}
    fields["meta"] |= _beside(annotation, task, data, name)
    return fields


def _beside(
    annotation: Mapping[str, Any], task: Mapping[str, Any], data: Mapping[str, Any], text: str
) -> dict[str, Any]:
    """What an export must say again. Results that hang on a span by its id can't come back: spans may be others then."""
    alone = [
        one
        for one in annotation.get("result") or ()
        if one.get("type") in BESIDES
        and one.get("type") != "relation"
        and isinstance(one.get("value"), dict)
        and not {"start", "parentID"} & {*one, *one["value"]}
    ]
    others = {
        "data": small({name: value for name, value in data.items() if name != text}),
        "meta": task.get("meta"),
        "result": alone,
        "ground_truth": annotation.get("ground_truth"),
    }
    return kept({name: value for name, value in others.items() if value})


def _identity(annotation: Mapping[str, Any], field: str) -> str:
    return f"{PLATFORM}:{integer(annotation.get('id'), f'{field}.id')}"


def _annotator(value: object) -> dict[str, Any]:
    """The annotator's address where the export has it, else the number."""
    if isinstance(value, dict):
        value = value.get("email") or value.get("username") or value.get("id")
    name = name_of(value)
    return {} if name is None else {"annotator": name[:256]}


def read(source: Source, options: Options) -> Iterator[Record]:
    met: set[str] = set()

    def convert(found: Mapping[str, Any], options: Options) -> Iterator[Converted]:
        met.update(names_of(found))
        return from_object(found, options)

    yield from reader(convert)(source, options)
    check_named(source, options, met)
