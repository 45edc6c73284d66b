"""Ids of platforms. A sentence's id is the platform's name, a colon and the platform's own id."""

from __future__ import annotations

from service.contracts import MAX_DOCUMENT_CHARS, PlatformTask


def to_numeric_id(name: str) -> int | str:
    """A platform's id that was a number as a number again, because the id of a sentence is text."""
    short = name.isascii() and len(name) < 20
    return int(name) if short and name.removeprefix("-").isdigit() and str(int(name)) == name else name


def to_platform_id(identity: str | None, platform: str) -> int | str | None:
    """The platform's own id; None if the sentence's id is not the platform's."""
    prefix = f"{platform}:"
    if identity is None or not identity.startswith(prefix):
        return None
    return to_numeric_id(identity.removeprefix(prefix))


def to_task_document(platform: str, task: str | None) -> str | None:
    """The document of the sentences of one task: the id of the task's deletion.

    The message that deletes a task then has the key of the task's annotations, and comes after them.
    """
    document = None if task is None else PlatformTask(platform, task).deletion_id
    return None if document is None or len(document) > MAX_DOCUMENT_CHARS else document
