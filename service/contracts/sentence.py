"""Labelled sentences: words with one given label each.

Unknown fields are errors on REST. On Kafka they are ignored, because a producer may be newer than the service:
`read_sentence` has an argument for it.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    FailFast,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, from_json

from service.contracts.base import DatasetName, Message, validate_iso_time
from service.contracts.probabilities import (
    WORDS_FIELD,
    WordProbabilities,
    build_field_error,
    describe_row_mismatch,
)
from service.contracts.validation import (
    FieldError,
    describe,
    join_location,
    join_path,
    to_decode_error,
    to_field_error,
    to_invalid_input,
)
from service.errors import InvalidInput, TooLongError

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_WORDS = 5_000
MAX_WORD_CHARS = 10_000
MAX_SENTENCE_CHARS = 100_000  # tokenising takes 1 µs and 230 bytes a character
MAX_DOCUMENT_CHARS = 512
MAX_BATCH_CHARS = 128
# The first wrong word is reported: a million errors take 11 s and 1 GB.
TextRow = Annotated[tuple[StrictStr, ...], FailFast()]
NOT_AN_OBJECT = (
    'not a JSON object: send one such as {"tokens": […], "labels": […]}; over REST send several as {"sentences": […]}, '
    "or as NDJSON, one per line"
)
NOT_UNICODE = "it contains half of a surrogate pair: send valid Unicode text"


class AnnotatedSentence(Message):
    """The fields of a sentence that its assessment repeats: words, given labels and where they come from."""

    tokens: TextRow = Field(default=(), description="The words")
    labels: TextRow = Field(default=(), description="One label per word, in the names of the dataset")
    dataset: DatasetName = "default"
    id: StrictStr | None = Field(default=None, min_length=1, max_length=512, description="Unique in its dataset")
    revision: StrictInt = Field(
        default=0, ge=-(2**63), lt=2**63, description="Grows each time the sentence is annotated again"
    )
    update: StrictBool = Field(default=False, description="The sentence replaces an earlier annotation")
    deleted: StrictBool = Field(default=False, description="The annotation was deleted; no tokens are needed")
    document: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_DOCUMENT_CHARS,
        description="The document that the sentence belongs to. Key the message by dataset and document, so that the "
        "document stays in one partition and in order",
    )
    batch: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_BATCH_CHARS,
        description="The delivery that the sentence is part of, such as one of a vendor or one run of a language model",
    )
    annotator: StrictStr | None = Field(default=None, max_length=256)
    source: StrictStr | None = Field(
        default=None, max_length=2048, description="Link to the annotation in its platform"
    )
    annotated_at: datetime | None = None
    meta: dict[str, JsonValue] | None = None

    _iso = field_validator("annotated_at", mode="before")(validate_iso_time)

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.deleted and self.id is None:
            raise build_field_error("id", "a deletion needs the id of the deleted sentence")
        if not self.deleted and not self.tokens:
            raise build_field_error("tokens", "it is empty: send at least one word, or `deleted: true`")
        if not self.deleted and len(self.tokens) != len(self.labels):
            raise build_field_error("labels", describe_label_mismatch(len(self.labels), len(self.tokens)))
        for field, texts in (("tokens", self.tokens), ("labels", self.labels)):
            if "".join(texts).isascii():
                continue
            for word, text in enumerate(texts):
                if not _is_encodable(text):
                    raise build_field_error(field, NOT_UNICODE, word=word)
        if self.meta is not None:
            _check_meta(self.meta)
        return self


class LabelledSentence(AnnotatedSentence):
    """Words with one given label each. Bare `{"tokens": […], "labels": […]}` is a valid message."""

    probabilities: WordProbabilities | None = Field(
        default=None, description="Class probabilities of each word. If they are sent, no model runs for the sentence"
    )

    @model_validator(mode="after")
    def _check_probabilities(self) -> Self:
        if self.probabilities is None or self.deleted:
            return self
        if len(self.probabilities.words) != len(self.tokens):
            problem = describe_row_mismatch(len(self.probabilities.words), len(self.tokens))
            raise build_field_error(WORDS_FIELD, problem)
        return self


def describe_label_mismatch(labels: int, words: int) -> str:
    """The error text for a number of labels that is not the number of words."""
    given = f"{labels} label{'' if labels == 1 else 's'}"
    return f"{given} for {words} word{'' if words == 1 else 's'}: give each word one label"


def _is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_meta(meta: dict[str, JsonValue]) -> None:
    """`meta` is passed through, so it must be encodable as JSON."""
    try:
        json.dumps(meta, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise build_field_error("meta", NOT_UNICODE) from None
    except ValueError:
        raise build_field_error(
            "meta", "it contains NaN or an infinity, which JSON does not have: leave it out or send null"
        ) from None


def read_sentence(
    raw: bytes | str | dict[str, Any],
    *,
    max_words: int = MAX_WORDS,
    unknown_fields: Literal["ignore", "forbid"] = "ignore",
    location: str | None = None,
) -> LabelledSentence:
    """Reads a sentence from JSON or from an object; the error names the field and says what to change.

    `location` is the path of the sentence in a request body. The error names the field by its whole path.
    """
    try:
        if isinstance(raw, dict):
            sentence = LabelledSentence.model_validate(raw, extra=unknown_fields)
        else:
            sentence = LabelledSentence.model_validate_json(raw, extra=unknown_fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            reason = first["msg"].removeprefix("Invalid JSON: ")
            raise to_decode_error(b"" if isinstance(raw, dict) else raw, reason, subject="it") from None
        if first["type"] in ("model_type", "model_attributes_type") and not first["loc"]:
            raise InvalidInput(NOT_AN_OBJECT) from None
        invalid = to_invalid_input(error, location=location, format_error=_to_field_error)
        _attach_token(invalid, raw)
        raise invalid from None
    check_length(sentence.tokens, max_words=max_words, field=join_path((location, "tokens")))
    return sentence


def check_length(tokens: Sequence[str], *, max_words: int, field: str | None = None) -> None:
    """Raises `TooLongError` before the words are tokenised: one word of 15 MB takes 3.5 GB and 16 s there."""
    if len(tokens) > max_words:
        raise TooLongError(f"{len(tokens)} words, the limit is {max_words}: split the sentence", field=field)
    total = sum(map(len, tokens))
    if total > MAX_WORD_CHARS:
        for word, token in enumerate(tokens):
            if len(token) > MAX_WORD_CHARS:
                problem = (
                    f"the word has {len(token):,} characters, the limit is {MAX_WORD_CHARS:,}: shorten or split it"
                )
                raise TooLongError(problem, field=field, word=word)
    if total > MAX_SENTENCE_CHARS:
        raise TooLongError(
            f"{total:,} characters, the limit is {MAX_SENTENCE_CHARS:,}: split the sentence", field=field
        )


def _to_field_error(error: ErrorDetails) -> FieldError:
    """Names a word by its index, and a rule about several fields by the field to change."""
    location, context = error["loc"], error.get("ctx", {})
    if error["type"] == "labelwatch":
        return FieldError(describe(error), context["field"], context["word"])
    if error["type"] == "extra_forbidden":
        fields = WordProbabilities.model_fields if location[0] == "probabilities" else LabelledSentence.model_fields
        problem = f"there is no such field: the fields are {', '.join(fields)}"
        return FieldError(problem, join_location(location))
    if len(location) == 2 and location[0] in ("tokens", "labels") and isinstance(location[1], int):
        return FieldError(describe(error), str(location[0]), location[1])
    if location[:2] == ("probabilities", "words") and len(location) > 2 and isinstance(location[2], int):
        return FieldError(describe(error), WORDS_FIELD, location[2])
    return to_field_error(error)


def _attach_token(error: InvalidInput, raw: bytes | str | dict[str, Any]) -> None:
    """Adds the text of the word to its index, if the message contains it."""
    if error.word is None or not str(error.field).endswith(("labels", WORDS_FIELD)):
        return
    fields = raw if isinstance(raw, dict) else from_json(raw)
    tokens = fields.get("tokens")
    if isinstance(tokens, list | tuple) and error.word < len(tokens) and isinstance(tokens[error.word], str):
        error.attach_token(tokens)
