"""Webhooks of Label Studio.

An annotation that was skipped (`was_cancelled`) says nothing about the words: an update of it becomes a deletion, which
closes its review item. For a deleted task Label Studio names only the task: the sentence `label-studio:task:ID` is
`deleted` and stands for all annotations of the task. Webhooks without payload and other events are ignored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from service.contracts import PlatformTask
from service.errors import InvalidInput
from service.formats.io.json_values import require_array, require_integer, require_object, to_name
from service.formats.platforms.events import ConvertedEvent, build_converted_event, build_deletion_fields
from service.formats.platforms.label_studio.annotations import PLATFORM, build_sentence_id, convert_annotation
from service.formats.records import ReadOptions
from service.formats.webhook import Webhook, WebhookQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from service.formats.conversion import ConvertedFields

ANNOTATION_CREATED_ACTIONS: Final = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED")
ANNOTATION_UPDATED: Final = "ANNOTATION_UPDATED"
ANNOTATIONS_DELETED: Final = "ANNOTATIONS_DELETED"
TASKS_DELETED: Final = "TASKS_DELETED"
# The key of the body that holds the payload, by action.
_PAYLOAD_KEYS: Final = {
    **dict.fromkeys((*ANNOTATION_CREATED_ACTIONS, ANNOTATION_UPDATED), "annotation"),
    ANNOTATIONS_DELETED: "annotations",
    TASKS_DELETED: "tasks",
}
NO_PAYLOAD: Final = "the event has no payload: switch `Send payload` on in the webhook's settings"


class LabelStudioQuery(WebhookQuery):
    control: str | None = Field(
        default=None, max_length=256, description="Control that labels the spans, if there are several"
    )

    @property
    def label(self) -> str | None:
        return self.control


def convert_event(
    event: Mapping[str, Any], query: LabelStudioQuery, received_at: datetime, options: ReadOptions
) -> ConvertedEvent:
    return from_event(event, received_at=received_at, dataset=query.dataset, options=options)


def from_event(
    event: Mapping[str, Any],
    *,
    received_at: datetime,
    dataset: str = "default",
    options: ReadOptions | None = None,
) -> ConvertedEvent:
    """The sentences of a webhook's body. A deletion carries no time: it counts from `received_at`."""
    options = options or ReadOptions()
    action = event.get("action")
    if not isinstance(action, str):
        raise InvalidInput("it is missing: is this a webhook of Label Studio?", field="action")
    if action not in _PAYLOAD_KEYS:
        return ConvertedEvent(action, ignored_reason="only annotations that are created, updated or deleted count")
    key = _PAYLOAD_KEYS[action]
    if key not in event:
        return ConvertedEvent(action, ignored_reason=NO_PAYLOAD)
    converted = list(_convert_payload(event, action, received_at, options))
    nothing = "it names none" if key.endswith("s") else "skipped by the annotator"
    ignored = None if converted else nothing
    result = build_converted_event(
        action, converted, dataset=dataset, max_words=options.max_words, ignored_reason=ignored
    )
    if action != TASKS_DELETED:
        return result
    return replace(result, deleted_tasks=tuple(str((sentence.meta or {})["task"]) for sentence in result.sentences))


def convert_stored_event(
    event: Mapping[str, Any], received_at: datetime, options: ReadOptions
) -> Iterator[ConvertedFields]:
    """The sentences of a webhook's body that was stored in a file; other events hold none."""
    action = str(event["action"])
    if _PAYLOAD_KEYS.get(action) in event:
        yield from _convert_payload(event, action, received_at, options)


def _convert_payload(
    event: Mapping[str, Any], action: str, received_at: datetime, options: ReadOptions
) -> Iterator[ConvertedFields]:
    project = event.get("project")
    if action == ANNOTATIONS_DELETED:
        for index, value in enumerate(require_array(event["annotations"], "annotations")):
            field = f"annotations.{index}"
            identity = build_sentence_id(require_object(value, field), field)
            yield build_deletion_fields(PLATFORM, identity, received_at)
    elif action == TASKS_DELETED:
        for index, value in enumerate(require_array(event["tasks"], "tasks")):
            task = str(require_integer(require_object(value, f"tasks.{index}").get("id"), f"tasks.{index}.id"))
            project_id = to_name(project.get("id")) if isinstance(project, dict) else None
            meta = {"task": task} | ({} if project_id is None else {"project": project_id})
            yield build_deletion_fields(PLATFORM, PlatformTask(PLATFORM, task).deletion_id, received_at, **meta)
    else:
        config = project.get("parsed_label_config") if isinstance(project, dict) else None
        yield from _convert_annotations(event, action, config, options)


def _convert_annotations(
    event: Mapping[str, Any], action: str, config: object, options: ReadOptions
) -> Iterator[ConvertedFields]:
    is_bulk = isinstance(event["annotation"], list)
    for index, value in enumerate(event["annotation"] if is_bulk else [event["annotation"]]):
        field = f"annotation.{index}" if is_bulk else "annotation"
        try:
            annotation = require_object(value, field)
            task = _find_task(event.get("task"), annotation)
            if action in ANNOTATION_CREATED_ACTIONS and annotation.get("was_cancelled") is True:
                continue
            fields = convert_annotation(annotation, task, field, options, config)
        except InvalidInput as error:
            yield error  # other annotations of a bulk may be valid, and Label Studio does not send the event again
        else:
            yield fields | {"update": True} if action == ANNOTATION_UPDATED else fields


def _find_task(tasks: object, annotation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The task, or of several the one that the annotation refers to."""
    if not isinstance(tasks, list):
        return require_object(tasks, "task")
    for task in tasks:
        if isinstance(task, dict) and task.get("id") == annotation.get("task"):
            return task
    raise InvalidInput(f"none is the annotation's task {annotation.get('task')}", field="task")


WEBHOOK: Final = Webhook(
    summary="Take an event of Label Studio",
    description="""Annotations that are created, updated or deleted, also with their task. Other events are ignored.

Set the key as a header of the webhook: `Authorization: Bearer KEY`.""",
    example={"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 41}]},
    event_field="action",
    query=LabelStudioQuery,
    convert=convert_event,
)
