"""Reads JSON Lines as Prodigy's `db-out` writes them.

Prodigy's tokens are the words, if a line has them. Only the answer `accept` confirms the spans: `reject` and `ignore`
become `deleted`, with the answer in `meta`. A yes or no about a single span (`ner.teach`) says nothing about the other
words and is an error.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from service.contracts import MAX_DOCUMENT_CHARS
from service.errors import InvalidInput
from service.formats.conversion import ConvertedFields, build_labelled_fields, build_reader
from service.formats.io.json_values import (
    require_array,
    require_integer,
    require_label,
    require_object,
    require_text,
    to_microseconds,
    to_name,
)
from service.formats.meta import pack_extra_fields
from service.formats.records import find_document, find_words
from service.formats.text.offsets import TextSpan
from service.formats.text.word_splitter import CharacterRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.formats.records import ReadOptions

PLATFORM: Final = "prodigy"
TOKENS_SPLITTER: Final = "prodigy-tokens"
ACCEPTED: Final = "accept"
ANSWERS: Final = (ACCEPTED, "reject", "ignore")
_BINARY_VIEW_ID: Final = "ner"
_KNOWN_FIELDS: Final = frozenset({"text", "tokens", "answer", "_task_hash", "_annotator_id", "_timestamp"})


def has_token_objects(record: Mapping[str, Any]) -> bool:
    """Whether the words are objects, as only Prodigy writes them."""
    words = find_words(record)
    return isinstance(words[0], dict) if words else False


def from_line(line: Mapping[str, Any], options: ReadOptions) -> Iterator[ConvertedFields]:
    answer = line.get("answer", ACCEPTED)
    if answer not in ANSWERS:
        raise InvalidInput(f"{str(answer)[:40]!r} is not one of {', '.join(ANSWERS)}", field="answer")
    answer_fields = _read_answer_fields(line)
    if answer != ACCEPTED:
        if "id" not in answer_fields:
            raise InvalidInput(f"the answer is {answer}, and without `_task_hash` no earlier answer can be deleted")
        yield {**answer_fields, "deleted": True, "meta": {"format": PLATFORM, "answer": answer}}
        return
    if line.get("_view_id") == _BINARY_VIEW_ID:
        raise InvalidInput(
            "an answer about one span says nothing about the other words: use ner.manual", field="_view_id"
        )
    words = _read_words(line["tokens"], line.get("text")) if line.get("tokens") is not None else None
    label_field = options.label or "spans"
    if options.label is not None and options.label not in line:
        raise InvalidInput(f"it is missing, the line has {', '.join(list(line)[:10])}", field=label_field)
    spans = [
        _read_span(require_object(value, f"{label_field}.{index}"), f"{label_field}.{index}", words)
        for index, value in enumerate(require_array(line.get(label_field, []), label_field))
    ]
    fields = build_labelled_fields(
        line.get("text"), spans, options, words=words, splitter=TOKENS_SPLITTER if words is not None else None
    )
    fields["meta"]["format"] = PLATFORM
    fields["meta"] |= pack_extra_fields(
        {name: value for name, value in line.items() if name not in {*_KNOWN_FIELDS, label_field}}
    )
    if label_field != "spans":
        fields["meta"]["field"] = label_field
    yield {**fields, **answer_fields}


def _read_answer_fields(line: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    annotator = to_name(line.get("_annotator_id"))
    task = to_name(line.get("_task_hash"))
    if annotator is not None:
        fields["annotator"] = annotator[:256]
    if task is not None:
        fields["id"] = ":".join(part for part in (PLATFORM, task, annotator) if part)[:512]
    document = find_document(line.get("meta"), line)
    source_text = to_name(line.get("_input_hash"))  # several annotators may have answered about one text
    if document is None and source_text is not None:
        document = f"{PLATFORM}:input:{source_text}"[:MAX_DOCUMENT_CHARS]
    if document is not None:
        fields["document"] = document
    seconds = line.get("_timestamp")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        try:
            timestamp = datetime.fromtimestamp(seconds, UTC)
        except (ValueError, OverflowError, OSError):
            raise InvalidInput("it is not a time in seconds since 1970", field="_timestamp") from None
        fields |= {"revision": to_microseconds(timestamp), "annotated_at": timestamp.isoformat()}
    return fields


def _read_words(tokens: object, text: object) -> list[CharacterRange]:
    """Prodigy's tokens, checked against the text."""
    text = require_text(text, "text")
    words: list[CharacterRange] = []
    for index, value in enumerate(require_array(tokens, "tokens")):
        field = f"tokens.{index}"
        token = require_object(value, field)
        word = CharacterRange(
            require_integer(token.get("start"), f"{field}.start"), require_integer(token.get("end"), f"{field}.end")
        )
        previous_end = words[-1].end if words else 0
        if not previous_end <= word.start < word.end <= len(text):
            raise InvalidInput(
                "it starts before the end of the previous token, is empty or ends after the text", field=field
            )
        if token.get("text") != word.extract(text):
            raise InvalidInput(f"{str(token.get('text'))[:40]!r} does not match the text at its offsets", field=field)
        words.append(word)
    return words


def _read_span(span: Mapping[str, Any], field: str, words: Sequence[CharacterRange] | None) -> TextSpan:
    label = require_label(span.get("label"), f"{field}.label")
    first, last = span.get("token_start"), span.get("token_end")
    by_tokens = None
    if words is not None and first is not None and last is not None:
        # token_end is the last token itself, while `end` is the character after the span.
        first, last = require_integer(first, f"{field}.token_start"), require_integer(last, f"{field}.token_end")
        if not 0 <= first <= last < len(words):
            raise InvalidInput(f"tokens {first} to {last} don't fit {len(words)} tokens", field=field)
        by_tokens = TextSpan(words[first].start, words[last].end, label, field)
    if by_tokens is not None and span.get("start") is None and span.get("end") is None:
        return by_tokens
    text = span.get("text")
    start, end = require_integer(span.get("start"), f"{field}.start"), require_integer(span.get("end"), f"{field}.end")
    if by_tokens is not None and (start, end) != (by_tokens.start, by_tokens.end):
        raise InvalidInput(
            f"characters {start} to {end}, and its tokens are {by_tokens.start} to {by_tokens.end}", field=field
        )
    return TextSpan(start, end, label, field, text if isinstance(text, str) else None)


read = build_reader(from_line)
