"""The columns of tables that labelwatch writes, by which its reader recognises them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SENTENCE_COLUMNS: Final = ("id", "tokens", "labels", "revision", "document", "annotator", "source", "annotated_at")
OPTIONAL_SENTENCE_COLUMNS: Final = ("batch",)  # only if a sentence has one
WORD_COLUMNS: Final = ("sentence_id", "word", "label")
OPTIONAL_WORD_COLUMNS: Final = ("document", "batch")  # only if a sentence has one


def is_own_header(header: Sequence[str]) -> bool:
    """Whether labelwatch wrote the table: then its cells are neutralised, and those of other tables are not."""
    for required, optional in ((SENTENCE_COLUMNS, OPTIONAL_SENTENCE_COLUMNS), (WORD_COLUMNS, OPTIONAL_WORD_COLUMNS)):
        names = tuple(header)
        if names[: len(required)] == required and set(names[len(required) :]) <= set(optional):
            return True
    return False
