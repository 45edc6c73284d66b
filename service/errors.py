"""The exception tree, and what happens to the work that raises an error.

    bytes --DecodeError--> sentence --InvalidInput, UnknownLabelError, TooLongError--> words
        --InferenceError--> probabilities --InvalidInput--> scores --StreamError--> topics

    LabelwatchError
    ├── InvalidInput          dead_letter   a message, file or array that breaks a rule; names field, sentence, word
    │   ├── DecodeError       dead_letter   not JSON, not UTF-8, not the columns the format needs
    │   ├── UnknownLabelError dead_letter   a label that the model has no class for
    │   ├── TooLongError      dead_letter   more words than `max_words`
    │   └── MessageTooLargeError            more bytes than the input topic accepts
    ├── InferenceError        dead_letter   a sentence that the model fails on even alone
    │   └── TooManySubwordsError            more subwords than the model accepts
    ├── ModelError            fatal         a model folder that can't be used; says why
    │   └── MissingModelError wait          a dataset's model that the registry lacks; its partition is paused
    ├── SettingsError         fatal         a setting that can't be used; names it
    ├── StateError            fatal         a state record that can't be read
    │   └── NewerStateError   fatal         one that needs a newer labelwatch; exit code 78, as a restart can't help
    ├── StreamError           retry         the broker or the embedded log failed
    └── RejectedRequestError  reject        a request that can't be fulfilled as things are
        ├── ConflictError                   a change that can't be made on top of what is stored
        │   └── VersionMismatchError        a change of another version than the one in force
        └── UnknownDatasetError             a dataset that has neither settings nor statistics

The second column says what a worker does: it writes a dead letter, retries, waits, or stops (fatal). REST answers 422, 503 or
500; a rejected request has a status of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_QUOTED_LENGTH = 40


class LabelwatchError(Exception):
    """Base of all errors of the service."""

    stage: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1


class InvalidInput(LabelwatchError):  # noqa: N818 - the name says that the input is at fault
    """Input that breaks a rule. The message says where and what to change."""

    stage = "validate"

    def __init__(
        self,
        problem: str,
        *,
        field: str | None = None,
        sentence: int | str | None = None,
        word: int | None = None,
        token: str | None = None,
    ) -> None:
        self.problem = problem
        self.field = field
        self.sentence = sentence
        self.word = word
        self.token = token
        super().__init__(self._format_message(problem))

    def attach_token(self, tokens: Sequence[str]) -> None:
        """Adds the word itself to the message, since a reader who counts from 1 would look at the wrong word."""
        if self.token is None and self.word is not None and self.word < len(tokens):
            self.token = tokens[self.word]
            self.args = (self._format_message(self.problem),)

    def _format_message(self, problem: str) -> str:
        location = [
            part
            for part in (
                None if self.sentence is None else f"sentence {self.sentence}",
                None if self.word is None else f"word {self.word}{self._quote_token()}",
                None if self.field is None else f"`{self.field}`",
            )
            if part
        ]
        return f"{', '.join(location)}: {problem}" if location else problem

    def _quote_token(self) -> str:
        if self.token is None:
            return ""
        return (
            f" ({self.token if len(self.token) <= MAX_QUOTED_LENGTH else self.token[: MAX_QUOTED_LENGTH - 1] + '…'!r})"
        )


class DecodeError(InvalidInput):
    """Bytes or lines that are not in the expected format."""

    stage = "decode"


class UnknownLabelError(InvalidInput):
    """A given label that the model has no class for. `cli_message` names options of the command line as the remedy."""

    stage = "labels"

    def __init__(
        self,
        problem: str,
        *,
        field: str | None = None,
        sentence: int | str | None = None,
        word: int | None = None,
        token: str | None = None,
        cli_problem: str | None = None,
    ) -> None:
        super().__init__(problem, field=field, sentence=sentence, word=word, token=token)
        self._cli_problem = cli_problem

    @property
    def cli_message(self) -> str:
        return str(self) if self._cli_problem is None else self._format_message(self._cli_problem)


class TooLongError(InvalidInput):
    """A sentence with more words than `max_words`."""

    stage = "too_long"


class MessageTooLargeError(InvalidInput):
    """A sentence whose message has more bytes than the input topic accepts."""


class InferenceError(LabelwatchError):
    """A sentence that the model fails on even when it is alone in its batch."""

    stage = "inference"
    field: str | None = None  # of the sentence, or from the start of the body


class TooManySubwordsError(InferenceError):
    """A sentence with more subwords than the model accepts, though it has at most `max_words` words."""

    stage = "too_long"
    field = "tokens"


class ModelError(LabelwatchError):
    """A model folder that can't be used."""

    stage = "model"


class MissingModelError(ModelError):
    """A model that a dataset names and this process does not have, or not with the expected contents."""


class SettingsError(LabelwatchError):
    """A setting that can't be used."""

    stage = "settings"


class StateError(LabelwatchError):
    """A state record that can't be read."""

    stage = "state"


class NewerStateError(StateError):
    """A state record that needs a newer labelwatch. A restart of the same release ends in the same way."""

    exit_code = 78  # EX_CONFIG of sysexits.h


class StreamError(LabelwatchError):
    """The broker or the embedded log failed. Trying again may help."""

    stage = "stream"


class RejectedRequestError(LabelwatchError):
    """A request that is well formed and can't be fulfilled as things are. `field` names what to change."""

    def __init__(self, problem: str, *, field: str | None = None) -> None:
        super().__init__(problem)
        self.field = field


class ConflictError(RejectedRequestError):
    """A change that can't be made on top of what is stored now."""


class VersionMismatchError(ConflictError):
    """A change of another version than the one in force."""


class UnknownDatasetError(RejectedRequestError):
    """A dataset that has neither settings nor statistics."""
