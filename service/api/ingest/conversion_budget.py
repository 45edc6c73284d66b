"""What the conversion of a request's records may cost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from service.api.http.problems import TooLargeError

if TYPE_CHECKING:
    from service.contracts import LabelledSentence


class ParsingStoppedError(Exception):
    """Nobody waits for the records of the body any more."""


class ConversionBudget:
    """Sentences and characters that the records of one body may still become, and whether someone waits for them.

    One record repeats its text for each of its annotations, so a body of 2 MB could become gigabytes of sentences. The
    sentences of a body may have as many characters as a body may have bytes.
    """

    def __init__(self, max_sentences: int, max_characters: int, stopped: threading.Event) -> None:
        self._max_sentences = max_sentences
        self._max_characters = max_characters
        self._sentences = self._characters = 0
        self._stopped = stopped

    def check_stopped(self) -> None:
        if self._stopped.is_set():
            raise ParsingStoppedError

    def take(self, sentence: LabelledSentence, number: int, location: str | None) -> None:
        """Counts a sentence of the record with this number. Raises TooLargeError if it is one too many."""
        self.check_stopped()
        self._sentences += 1
        self._characters += sum(map(len, sentence.tokens)) + _count_text(sentence)
        if self._sentences > self._max_sentences:
            problem = f"{self._max_sentences:,} sentences"
        elif self._characters > self._max_characters:
            problem = f"{self._max_characters:,} characters in its sentences"
        else:
            return
        raise TooLargeError(
            f"record {number}: with it the body has more than {problem}, the most that are accepted at once: send "
            "several requests",
            field=location,
        )


def _count_text(sentence: LabelledSentence) -> int:
    text = (sentence.meta or {}).get("text")
    return len(text) if isinstance(text, str) else 0
