"""The task of an annotation platform that a sentence belongs to, and the id that says the task was deleted.

A platform that deletes a task does not say which annotations the task had. So one sentence, `PLATFORM:task:NUMBER` with
`deleted`, stands for all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from service.contracts.sentence import AnnotatedSentence

_SEPARATOR: Final = ":task:"


class PlatformTask(NamedTuple):
    """Several annotations may belong to one task."""

    platform: str
    number: str

    @property
    def deletion_id(self) -> str:
        return f"{self.platform}{_SEPARATOR}{self.number}"

    @classmethod
    def from_deletion_id(cls, sentence_id: str) -> PlatformTask | None:
        platform, separator, number = sentence_id.partition(_SEPARATOR)
        return cls(platform, number) if separator else None

    @classmethod
    def from_sentence(cls, sentence: AnnotatedSentence) -> PlatformTask | None:
        meta = sentence.meta or {}
        platform, number = meta.get("format"), meta.get("task", meta.get("record"))  # Argilla's tasks are records
        is_number = isinstance(number, str) or (isinstance(number, int) and not isinstance(number, bool))
        return cls(platform, str(number)) if isinstance(platform, str) and is_number else None
