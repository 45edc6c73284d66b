"""Deletions that a webhook reports without all that the queue must know: annotations of a deleted task, and times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.errors import StateError
from service.formats.platforms.events import build_deletions

if TYPE_CHECKING:
    from datetime import datetime

    from service.api.backend import Backend
    from service.contracts import LabelledSentence
    from service.formats.platforms.events import ConvertedEvent

MAX_REVISION: Final = 2**63 - 1


def complete_deletions(
    backend: Backend, platform: str, event: ConvertedEvent, *, dataset: str, received_at: datetime
) -> tuple[LabelledSentence, ...]:
    """The sentences of an event, with the deletions of its deleted tasks, each with a revision that takes effect."""
    sentences = event.sentences
    for task in event.deleted_tasks:
        ids = _find_task_items(backend, platform, task, dataset)
        deletions = build_deletions(platform, ids, task=task, deleted_at=received_at, dataset=dataset)
        sentences = (*sentences, *deletions)
    return _raise_revisions(backend, sentences, dataset)


def _find_task_items(backend: Backend, platform: str, task: str, dataset: str) -> list[str]:
    """The review items of a deleted task. The queue closes items of the same task that arrive later."""
    try:
        return backend.queue.find_task_item_ids(dataset, platform, task)
    except StateError:  # the queue is being rebuilt
        return []


def _raise_revisions(
    backend: Backend, sentences: tuple[LabelledSentence, ...], dataset: str
) -> tuple[LabelledSentence, ...]:
    """Raises the revision of deletions without a time above that of the annotations they delete.

    The platform's clock may be ahead of ours: with our time alone such a deletion would be older than its annotation.
    """
    undated = [sentence for sentence in sentences if _is_undated_deletion(sentence)]
    if not undated:
        return sentences
    newest = backend.deliveries.get_newest_revision(dataset)
    try:
        known = list(backend.queue.get_revisions(dataset, [sentence.id or "" for sentence in undated]).values())
    except StateError:  # the queue is being rebuilt
        known = []
    lowest = min(max([*known, *([] if newest is None else [newest])], default=-MAX_REVISION) + 1, MAX_REVISION)
    return tuple(
        sentence.model_copy(update={"revision": lowest})
        if _is_undated_deletion(sentence) and sentence.revision < lowest
        else sentence
        for sentence in sentences
    )


def _is_undated_deletion(sentence: LabelledSentence) -> bool:
    return sentence.deleted and sentence.annotated_at is None
