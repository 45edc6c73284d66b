"""Webhook events of annotation platforms, converted to sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.contracts import LabelledSentence, read_sentence
from service.errors import InvalidInput
from service.formats.io.json_values import to_microseconds
from service.formats.platforms.ids import to_task_document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from service.formats.conversion import ConvertedFields


@dataclass(frozen=True, slots=True)
class ConvertedEvent:
    """The sentences of an event, or the reason why it has none.

    `deleted_tasks` are tasks that the platform deleted with all their annotations; the event does not list these.
    `errors` are annotations that cannot be read, in an event that has others that can.
    """

    event: str
    sentences: tuple[LabelledSentence, ...] = ()
    ignored_reason: str | None = None
    deleted_tasks: tuple[str, ...] = ()
    errors: tuple[InvalidInput, ...] = ()


def build_converted_event(
    event: str, converted: Iterable[ConvertedFields], *, dataset: str, max_words: int, ignored_reason: str | None = None
) -> ConvertedEvent:
    """Validates the sentences of an event. If none of them is valid, the first error is raised."""
    sentences, errors = [], []
    for fields in converted:
        try:
            if isinstance(fields, InvalidInput):
                raise fields
            sentences.append(read_sentence({**fields, "dataset": dataset}, max_words=max_words))
        except InvalidInput as error:
            errors.append(error)
    if errors and not sentences:
        raise errors[0]
    return ConvertedEvent(event, tuple(sentences), ignored_reason, errors=tuple(errors))


def build_deletion_fields(platform: str, identity: str, deleted_at: datetime, **meta: str) -> dict[str, Any]:
    return {
        "id": identity,
        "deleted": True,
        "revision": to_microseconds(deleted_at),
        "meta": {"format": platform, **meta},
    }


def build_deletions(
    platform: str, ids: Iterable[str], *, task: str, deleted_at: datetime, dataset: str
) -> tuple[LabelledSentence, ...]:
    """Deletions of annotations that the platform deleted together with their task."""
    about = {"dataset": dataset, "document": to_task_document(platform, task)}
    return tuple(read_sentence({**build_deletion_fields(platform, identity, deleted_at), **about}) for identity in ids)
