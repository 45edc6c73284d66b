"""Parses sentences with words and labels: one, a list, or one per line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from service.api.http.bodies import list_messages, pop_options, with_location
from service.api.http.json_text.parse import parse_json
from service.api.http.json_text.split import LARGE_BYTES, check_record_shape, split_records
from service.api.ingest.conversion_budget import ParsingStoppedError
from service.api.ingest.parsed_records import ParsedBody, ParsedRecord, ensure_id
from service.api.ingest.query import LIST_FIELD, WORDS_FORMAT, detect_record_format
from service.contracts import read_sentence
from service.contracts.validation import join_path
from service.errors import DecodeError, InvalidInput, TooLongError

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from service.api.backend import ScoringBackend
    from service.api.http.ndjson.lines import BodyLine
    from service.api.ingest.query import RecordQuery
    from service.contracts import LabelledSentence
    from service.errors import InferenceError

_QUOTED_LIST_FIELD: Final = f'"{LIST_FIELD}"'.encode()


class SentenceParser:
    """Parses the format `words`. Each record is one sentence."""

    def __init__(
        self, query: RecordQuery, backend: ScoringBackend, stopped: threading.Event, *, assign_ids: bool
    ) -> None:
        """`stopped` is set when nobody waits for the records any more: parsing ends after the current sentence."""
        self._stopped = stopped
        self._dataset = query.dataset
        self._assign_ids = assign_ids
        self._max_words = backend.max_words
        self._max_sentences = backend.settings.max_sentences
        self._max_line_bytes = backend.settings.max_line_bytes

    def parse_body(self, raw: bytes, options: Sequence[str]) -> ParsedBody:
        if not has_list(raw):
            return ParsedBody([self._build_record(1, raw)])
        is_large = len(raw) > LARGE_BYTES
        body = split_records(raw, LIST_FIELD, self._max_sentences) if is_large else parse_json(raw)
        if not isinstance(body, dict) or LIST_FIELD not in body:
            return ParsedBody([self._build_record(1, raw)])
        chosen = pop_options(body, options)
        records = []
        for number, (location, value) in enumerate(list_messages(body, LIST_FIELD, self._max_sentences), 1):
            if self._stopped.is_set():
                raise ParsingStoppedError
            message = bytes(value) if isinstance(value, memoryview) else value
            if not (isinstance(message, dict) or (isinstance(message, bytes) and message.lstrip().startswith(b"{"))):
                raise InvalidInput("not an object: give one with `tokens` and `labels`", field=location)
            records.append(self._build_record(number, message, location))
        return ParsedBody(records, chosen)

    def parse_line(self, line: BodyLine) -> ParsedRecord:
        if line.raw is None:
            raise TooLongError(f"the line is longer than {self._max_line_bytes:,} bytes: split the sentence")
        return self._build_record(line.number, line.raw)

    def list_scorable(self, record: ParsedRecord) -> Sequence[LabelledSentence]:
        """All: a deleted sentence is an error of the request, which need not send it."""
        return record.sentences

    def locate_error(
        self, error: InvalidInput | InferenceError, record: ParsedRecord, _: LabelledSentence
    ) -> Exception:
        if isinstance(error, InvalidInput):
            return with_location(error, record.location)
        field = join_path((record.location, error.field))
        if field is None:
            return error
        located = type(error)(f"`{field}`: {error}")
        located.field = field
        return located

    def _build_record(self, number: int, raw: bytes | dict[str, Any], location: str | None = None) -> ParsedRecord:
        sentence = self._read_sentence(raw, location)
        if self._dataset is not None:
            sentence = sentence.model_copy(update={"dataset": self._dataset})
        if self._assign_ids:
            sentence = ensure_id(sentence)
        return ParsedRecord(number, WORDS_FORMAT, (sentence,), location)

    def _read_sentence(self, raw: bytes | dict[str, Any], location: str | None) -> LabelledSentence:
        if isinstance(raw, bytes):
            check_record_shape(raw, subject="the sentence", field=location)
        try:
            return read_sentence(raw, max_words=self._max_words, unknown_fields="forbid", location=location)
        except DecodeError:
            raise
        except InvalidInput as error:
            value = raw if isinstance(raw, dict) else from_json(raw)
            form = detect_record_format(value) if isinstance(value, dict) else None
            if form in (None, WORDS_FORMAT):
                raise
            raise InvalidInput(
                f"it looks like a record of the format {form}, but a sentence with `tokens` and `labels` is expected: "
                f"send it with ?format={form}, or ?format=auto",
                field=location,
            ) from error


def has_list(raw: bytes | bytearray) -> bool:
    """Whether the body may hold a list of sentences: otherwise it is one."""
    return _QUOTED_LIST_FIELD in raw
