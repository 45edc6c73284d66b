"""Sentences in the bodies of requests: read once, and told clearly which of them breaks a rule."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from service.api.http.bodies import one_or_many, taken_out
from service.api.ingest.query import EXAMPLE as RECORD_EXAMPLE
from service.api.ingest.query import RECORD_SCHEMA, WORDS, recognised
from service.contracts import LabelledSentence, read_sentence
from service.contracts.validation import not_json
from service.errors import DecodeError, InvalidInput, TooLongError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.api.http.line_spool import Line

LIST = "sentences"
_LIST_KEY = b'"sentences"'
LARGE_BODY = 200_000  # past it reading takes long enough to hold up others

SENTENCE_SCHEMA: dict[str, Any] = LabelledSentence.model_json_schema() | {"additionalProperties": False}
SENTENCE_SCHEMA["properties"]["meta"]["anyOf"][0]["additionalProperties"] = True
del SENTENCE_SCHEMA["$defs"]


class Asked(NamedTuple):
    """The sentences of a body, and what else it says."""

    sentences: list[LabelledSentence]
    listed: bool
    options: Mapping[str, str]


async def read_body(raw: bytes, *, max_words: int, most: int, options: tuple[str, ...] = ()) -> Asked:
    """One sentence, or `{"sentences": […]}` beside which `options` may stand."""
    if len(raw) > LARGE_BODY:
        return await asyncio.to_thread(_read_body, raw, max_words, most, options)
    return _read_body(raw, max_words, most, options)


def _read_body(raw: bytes, max_words: int, most: int, options: tuple[str, ...]) -> Asked:
    if _LIST_KEY not in raw:
        return Asked([_sentence(raw, max_words)], False, {})
    try:
        body = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise not_json(raw, error) from None
    if not isinstance(body, dict) or LIST not in body:
        return Asked([_sentence(raw, max_words)], False, {})
    chosen = taken_out(body, options)
    return Asked([_listed(place, each, max_words) for place, each in one_or_many(body, LIST, most)], True, chosen)


def _listed(place: str | None, value: object, max_words: int) -> LabelledSentence:
    if not isinstance(value, dict):
        raise InvalidInput("not an object: give one with `tokens` and `labels`", field=place)
    return _sentence(value, max_words, place)


def at(error: InvalidInput, place: str | None) -> InvalidInput:
    """The same error, with its field as it is called from the body's beginning."""
    field = ".".join(part for part in (place, error.field) if part)
    return type(error)(error.problem, field=field or None, word=error.word, token=error.token)


def _sentence(raw: bytes | dict[str, Any], max_words: int, place: str | None = None) -> LabelledSentence:
    try:
        return read_sentence(raw, max_words=max_words, unknown_fields="forbid", at=place)
    except DecodeError:
        raise
    except InvalidInput as error:
        found = raw if isinstance(raw, dict) else from_json(raw)
        form = recognised(found) if isinstance(found, dict) else None
        if form in (None, WORDS):
            raise
        raise InvalidInput(
            f"it looks like a record of the format {form}, and a sentence with `tokens` and `labels` is awaited: "
            f"send it with ?format={form}, or ?format=auto",
            field=place,
        ) from error


def read_line(line: Line, *, max_words: int, max_bytes: int) -> LabelledSentence:
    if line.raw is None:
        raise TooLongError(f"the line is longer than {max_bytes:,} bytes: split the sentence")
    return _sentence(line.raw, max_words)


def in_dataset(sentence: LabelledSentence, dataset: str | None) -> LabelledSentence:
    """The sentence in the dataset that the query names, as `labelwatch send --dataset` has it."""
    return sentence if dataset is None else sentence.model_copy(update={"dataset": dataset})


def body_schema(list_schema: Mapping[str, Any] | None = None, *, example: Mapping[str, Any]) -> dict[str, Any]:
    """The request body as OpenAPI tells it: one sentence or record, a list, or one a line."""
    listed = {
        "type": "object",
        "properties": {
            LIST: {"type": "array", "minItems": 1, "items": {"anyOf": [SENTENCE_SCHEMA, RECORD_SCHEMA]}},
            **(list_schema or {}),
        },
        "required": [LIST],
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
                    "many": {"summary": "A list", "value": {LIST: [example]}},
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
