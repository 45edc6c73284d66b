"""Converts records of annotation platforms to sentences, with the converters that files and webhooks use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from service.api.http.bodies import list_messages, pop_options
from service.api.http.json_text.parse import parse_json
from service.api.http.json_text.split import LARGE_BYTES, check_record_shape, split_records
from service.api.http.problems import TooLargeError
from service.api.ingest.conversion_budget import ConversionBudget
from service.api.ingest.parsed_records import ParsedBody, ParsedRecord, ensure_id
from service.api.ingest.platform_settings import get_platform_url
from service.api.ingest.query import (
    AUTO_FORMAT,
    FORMAT_NAMES,
    LIST_FIELD,
    WORDS_FORMAT,
    check_dataset_name,
    detect_record_format,
)
from service.contracts import read_sentence
from service.contracts.validation import join_path
from service.errors import DecodeError, InvalidInput, TooLongError
from service.formats import FORMATS, ReadOptions
from service.formats.conversion import convert_object
from service.formats.records import build_sentence

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from service.api.backend import ScoringBackend
    from service.api.http.ndjson.lines import BodyLine
    from service.api.ingest.query import RecordQuery
    from service.contracts import LabelledSentence
    from service.errors import InferenceError

EXPLICIT_FORMATS: Final = ", ".join(name for name in FORMAT_NAMES if name != AUTO_FORMAT)
MAX_CACHED_OPTIONS: Final = 20  # one for each dataset that records name

# Converters name the options of the command line; REST names its query parameters instead.
_CLI_TO_QUERY: Final = {"--label-names ": "label_names=", "--word-column": "field=", "--label-column": "control="}
_CLI_OPTION_PATTERN: Final = re.compile("|".join(_CLI_TO_QUERY))


class RecordConverter:
    """Parses the formats of platforms. A record has no sentence, one or several."""

    def __init__(self, query: RecordQuery, backend: ScoringBackend, stopped: threading.Event) -> None:
        """`stopped` is set when nobody waits for the records any more: the conversion ends after the current sentence."""
        self._query = query
        self._stopped = stopped
        self._backend = backend
        self._max_words = backend.max_words
        self._max_sentences = backend.settings.max_sentences
        self._options_by_dataset: dict[tuple[str, str], ReadOptions] = {}

    def parse_body(self, raw: bytes, options: Sequence[str]) -> ParsedBody:
        body = split_records(raw, LIST_FIELD, self._max_sentences) if len(raw) > LARGE_BYTES else parse_json(raw)
        chosen: dict[str, str] = {}
        values: list[tuple[str | None, object]]
        if isinstance(body, list):
            if not body:
                raise InvalidInput("the list is empty: give at least one record")
            if len(body) > self._max_sentences:
                raise TooLargeError(
                    f"{len(body):,} records, at most {self._max_sentences:,} are accepted at once: send several requests"
                )
            values = [(str(index), value) for index, value in enumerate(body)]
        elif isinstance(body, dict):
            chosen = pop_options(body, options) if LIST_FIELD in body else {}
            values = list_messages(body, LIST_FIELD, self._max_sentences)
        else:
            raise DecodeError("the body is neither an object nor a list: send one record, or several in a list")
        records: list[ParsedRecord] = []
        budget = self._create_budget()
        for number, (location, value) in enumerate(values, 1):
            budget.check_stopped()
            record = _parse_record(value, number, location) if isinstance(value, memoryview) else value
            records.append(self._convert(record, number, location, budget))
        return ParsedBody(records, chosen)

    def parse_line(self, line: BodyLine) -> ParsedRecord:
        if line.raw is None:
            limit = self._backend.settings.max_line_bytes
            raise TooLongError(f"the line is longer than {limit:,} bytes: split the record")
        value = _parse_record(line.raw, line.number, None)
        return self._convert(value, line.number, None, self._create_budget())

    def _create_budget(self) -> ConversionBudget:
        return ConversionBudget(self._max_sentences, self._backend.settings.max_body_bytes, self._stopped)

    def list_scorable(self, record: ParsedRecord) -> Sequence[LabelledSentence]:
        """Annotations that were deleted, skipped or rejected have nothing to score; the outcome lists them."""
        return [sentence for sentence in record.sentences if not sentence.deleted]

    def locate_error(
        self, error: InvalidInput | InferenceError, record: ParsedRecord, sentence: LabelledSentence
    ) -> Exception:
        sentence_id = sentence.id if len(record.sentences) > 1 else None
        if isinstance(error, InvalidInput):
            return _with_record_number(error, record.number, record.location, sentence_id=sentence_id)
        located = type(error)(f"{_name_record(record.number, sentence_id)}: {error}")
        located.field = record.location  # the words are not a field of the record
        return located

    def _convert(self, value: object, number: int, location: str | None, budget: ConversionBudget) -> ParsedRecord:
        if not isinstance(value, dict):
            raise _with_record_number(
                InvalidInput("it is not an object: give it as the platform exports it"), number, location
            )
        try:
            form = self._resolve_format(value)
            sentences: list[LabelledSentence] = []
            for sentence in self._iter_sentences(value, form):
                budget.take(sentence, number, location)
                sentences.append(sentence)
        except InvalidInput as error:
            raise _with_record_number(error, number, location) from None
        return ParsedRecord(number, form, tuple(sentences), location)

    def _resolve_format(self, record: Mapping[str, Any]) -> str:
        if self._query.format != AUTO_FORMAT:
            return self._query.format
        form = detect_record_format(record)
        if form is None:
            raise InvalidInput(f"its fields don't tell the format: name it with `format`, one of {EXPLICIT_FORMATS}")
        return form

    def _iter_sentences(self, record: dict[str, Any], form: str) -> Iterator[LabelledSentence]:
        dataset = {} if self._query.dataset is None else {"dataset": self._query.dataset}
        if form == WORDS_FORMAT:
            yield ensure_id(read_sentence(record | dataset, max_words=self._max_words, unknown_fields="forbid"))
            return
        convert = FORMATS[form].convert
        if convert is None:  # `FORMAT_NAMES` has no such format
            raise InvalidInput(f"{form!r} holds no records", field="format")
        own_dataset = record.get("dataset") if FORMATS[form].has_dataset else None
        options = self._get_options(
            self._query.dataset or (own_dataset if isinstance(own_dataset, str) else "default"), form
        )
        for fields in convert_object(convert, record, options):
            if isinstance(fields, InvalidInput):
                raise fields
            yield ensure_id(build_sentence(fields | dataset, options))

    def _get_options(self, dataset: str, form: str) -> ReadOptions:
        """How to convert for a dataset: spans become labels in its own scheme."""
        options = self._options_by_dataset.get((form, dataset))
        if options is None:
            if len(self._options_by_dataset) >= MAX_CACHED_OPTIONS:
                self._options_by_dataset.clear()
            check_dataset_name(dataset)
            options = self._options_by_dataset[form, dataset] = ReadOptions(
                word=self._query.field,
                label=self._query.control,
                label_names=self._query.label_names,
                max_words=self._max_words,
                base_url=get_platform_url(self._backend.settings, FORMATS[form]),
                scheme=self._backend.state_view.get_judge(dataset).scheme,
            )
        return options


def _parse_record(raw: bytes | memoryview, number: int, location: str | None) -> object:
    check_record_shape(raw, subject=_name_record(number, None), field=location)
    return parse_json(bytes(raw))


def _with_record_number(
    error: InvalidInput, number: int, location: str | None, *, sentence_id: str | None = None
) -> InvalidInput:
    """The error with its record's number, and with query parameters in place of command-line options."""
    field = join_path((location, error.field))
    position = str(InvalidInput("", field=field, word=error.word, token=error.token)).removesuffix(": ")
    problem = _CLI_OPTION_PATTERN.sub(lambda option: _CLI_TO_QUERY[option.group()], error.problem)
    located = type(error)(f"{_name_record(number, sentence_id)}{', ' if position else ''}{position}: {problem}")
    located.field, located.word, located.token = field, error.word, error.token
    return located


def _name_record(number: int, sentence_id: str | None) -> str:
    return f"record {number}{f' ({sentence_id})' if sentence_id else ''}"
