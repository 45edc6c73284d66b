"""Sentences in the bodies of requests: read once, and told clearly which of them breaks a rule."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from service.api.http.bodies import list_messages, parse_json, pop_options
from service.api.ingest.query import EXAMPLE as RECORD_EXAMPLE
from service.api.ingest.query import RECORD_SCHEMA, WORDS_FORMAT, detect_record_format
from service.contracts import LabelledSentence, read_sentence
from service.errors import DecodeError, InvalidInput, TooLongError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.http.ndjson.lines import BodyLine

LIST_FIELD = "sentences"
_QUOTED_LIST_FIELD = b'"sentences"'
MAX_INLINE_BODY_BYTES = 200_000  # past it reading takes long enough to hold up others

SENTENCE_SCHEMA: dict[str, Any] = LabelledSentence.model_json_schema() | {"additionalProperties": False}
SENTENCE_SCHEMA["properties"]["meta"]["anyOf"][0]["additionalProperties"] = True
del SENTENCE_SCHEMA["$defs"]


class ParsedBody(NamedTuple):
    """The sentences of a body, and what else it says."""

    sentences: list[LabelledSentence]
    is_list: bool
    options: Mapping[str, str]


async def read_body(raw: bytes, *, max_words: int, max_sentences: int, options: tuple[str, ...] = ()) -> ParsedBody:
    """One sentence, or `{"sentences": […]}` beside which `options` may stand."""
    if len(raw) > MAX_INLINE_BODY_BYTES:
        return await asyncio.to_thread(_read_body, raw, max_words, max_sentences, options)
    return _read_body(raw, max_words, max_sentences, options)


def _read_body(raw: bytes, max_words: int, max_sentences: int, options: tuple[str, ...]) -> ParsedBody:
    if _QUOTED_LIST_FIELD not in raw:
        return ParsedBody([_read_sentence(raw, max_words)], False, {})
    body = parse_json(raw)
    if not isinstance(body, dict) or LIST_FIELD not in body:
        return ParsedBody([_read_sentence(raw, max_words)], False, {})
    chosen = pop_options(body, options)
    return ParsedBody(
        [
            _read_listed_sentence(place, each, max_words)
            for place, each in list_messages(body, LIST_FIELD, max_sentences)
        ],
        True,
        chosen,
    )


def _read_listed_sentence(location: str | None, value: object, max_words: int) -> LabelledSentence:
    if not isinstance(value, dict):
        raise InvalidInput("not an object: give one with `tokens` and `labels`", field=location)
    return _read_sentence(value, max_words, location)


def with_location(error: InvalidInput, location: str | None) -> InvalidInput:
    """The same error, with its field as it is called from the body's beginning."""
    field = ".".join(part for part in (location, error.field) if part)
    return type(error)(error.problem, field=field or None, word=error.word, token=error.token)


def _read_sentence(raw: bytes | dict[str, Any], max_words: int, location: str | None = None) -> LabelledSentence:
    try:
        return read_sentence(raw, max_words=max_words, unknown_fields="forbid", location=location)
    except DecodeError:
        raise
    except InvalidInput as error:
        found = raw if isinstance(raw, dict) else from_json(raw)
        form = detect_record_format(found) if isinstance(found, dict) else None
        if form in (None, WORDS_FORMAT):
            raise
        raise InvalidInput(
            f"it looks like a record of the format {form}, and a sentence with `tokens` and `labels` is awaited: "
            f"send it with ?format={form}, or ?format=auto",
            field=location,
        ) from error


def read_line(line: BodyLine, *, max_words: int, max_bytes: int) -> LabelledSentence:
    if line.raw is None:
        raise TooLongError(f"the line is longer than {max_bytes:,} bytes: split the sentence")
    return _read_sentence(line.raw, max_words)


def with_dataset(sentence: LabelledSentence, dataset: str | None) -> LabelledSentence:
    """The sentence in the dataset that the query names, as `labelwatch send --dataset` has it."""
    return sentence if dataset is None else sentence.model_copy(update={"dataset": dataset})


def build_body_schema(list_schema: Mapping[str, Any] | None = None, *, example: Mapping[str, Any]) -> dict[str, Any]:
    """The request body as OpenAPI tells it: one sentence or record, a list, or one a line."""
    listed = {
        "type": "object",
        "properties": {
            LIST_FIELD: {"type": "array", "minItems": 1, "items": {"anyOf": [SENTENCE_SCHEMA, RECORD_SCHEMA]}},
            **(list_schema or {}),
        },
        "required": [LIST_FIELD],
        "additionalProperties": False,
    }
    return {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "anyOf": [
                        SENTENCE_SCHEMA,
                        listed,
                        RECORD_SCHEMA,
                        {
                            "type": "array",
                            "minItems": 1,
                            "items": RECORD_SCHEMA,
                            "description": "With a `format` other than `words`",
                        },
                    ]
                },
                "examples": {
                    "one": {"summary": "One sentence", "value": example},
                    "many": {"summary": "A list", "value": {LIST_FIELD: [example]}},
                    "records": {
                        "summary": "A task of Label Studio, with `?format=label-studio` (or `auto`)",
                        "value": RECORD_EXAMPLE,
                    },
                },
            },
            "application/x-ndjson": {
                "schema": {"type": "string", "description": "One sentence or record a line; answered line by line"},
            },
        },
    }
