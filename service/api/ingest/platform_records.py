"""Records of annotation platforms in the bodies of requests, by the converters that files and webhooks go through.

query ─ Wanted ─▶ record ─ converter of its format ─▶ no sentence, one or several ─▶ what is told of the record
"""

from __future__ import annotations

import asyncio
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, Field
from pydantic_core import to_json

from service.api.http.bodies import list_messages, parse_json, pop_options
from service.api.http.problems import TooLargeError
from service.api.ingest.platform_settings import get_platform_url
from service.api.ingest.query import (
    AUTO_FORMAT,
    FORMAT_NAMES,
    WORDS_FORMAT,
    RecordQuery,
    check_dataset_name,
    detect_record_format,
)
from service.contracts import LabelledSentence, read_sentence
from service.contracts.validation import join_path
from service.errors import DecodeError, InvalidInput, TooLongError
from service.formats import FORMATS, ReadOptions
from service.formats.conversion import convert_object
from service.formats.records import build_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.api.backend import Backend
    from service.api.http.ndjson.lines import BodyLine

NO_SENTENCE_REASON: Final = (
    "nothing in it says how words are labelled: no annotation, a draft, or an event about something else"
)
EXPLICIT_FORMATS: Final = ", ".join(name for name in FORMAT_NAMES if name != AUTO_FORMAT)
MAX_CACHED_OPTIONS: Final = 20  # one for each dataset that records name

# What converters tell those who read files, in the words of a query.
_CLI_TO_QUERY: Final = {"--label-names ": "label_names=", "--word-column": "field=", "--label-column": "control="}
_CLI_OPTION_PATTERN: Final = re.compile("|".join(_CLI_TO_QUERY))


class RecordSentence(BaseModel):
    """A sentence that came of a record."""

    id: str
    alignment: Literal["exact", "expanded"] | None = Field(
        default=None, description="Whether spans end where words do, or were expanded to whole words"
    )
    given_offsets: Literal["utf-16"] | None = Field(
        default=None, description="Where offsets were counted in other units than characters"
    )
    deleted: bool = Field(
        default=False, description="The annotation is gone, was skipped or rejected: nothing to judge"
    )


class RecordOutcome(BaseModel):
    """What came of one record."""

    record: int = Field(description="Its number in the body, from 1")
    format: str
    sentences: list[RecordSentence]
    ignored: str | None = Field(default=None, description="Why no sentence came of it")


@dataclass(frozen=True, slots=True)
class ConvertedRecord:
    """The sentences of a record. `place`: what its fields are called by from the body's beginning."""

    number: int
    format: str
    sentences: tuple[LabelledSentence, ...]
    location: str | None = None

    def to_outcome(self) -> RecordOutcome:
        return RecordOutcome(
            record=self.number,
            format=self.format,
            sentences=[_to_record_sentence(sentence) for sentence in self.sentences],
            ignored=None if self.sentences else NO_SENTENCE_REASON,
        )

    def to_json_line(self) -> bytes:
        """The same for a record that was a line."""
        fields = self.to_outcome().model_dump(exclude_none=True)
        return to_json({"line": fields.pop("record"), **fields})


@dataclass(frozen=True, slots=True)
class ParsedRecords:
    """The records of a body, and what else it says."""

    converted: list[ConvertedRecord]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentences(self) -> list[LabelledSentence]:
        return [sentence for one in self.converted for sentence in one.sentences]

    def to_outcomes(self) -> list[RecordOutcome]:
        return [one.to_outcome() for one in self.converted]


# -- bodies ------------------------------------------------------------------------------------------------------------


async def read_records(
    raw: bytes, query: RecordQuery, backend: Backend, *, options: tuple[str, ...] = ()
) -> ParsedRecords:
    """One record, a list, or `{"sentences": […]}` beside which `options` may stand. The first error is raised."""
    return await asyncio.to_thread(_read_records, raw, query, backend, options)


def _read_records(raw: bytes, query: RecordQuery, backend: Backend, options: tuple[str, ...]) -> ParsedRecords:
    most = backend.settings.max_sentences
    body = parse_json(raw)
    chosen: dict[str, str] = {}
    listed: list[tuple[str | None, object]]
    if isinstance(body, list):
        if not body:
            raise InvalidInput("the list is empty: give at least one record")
        if len(body) > most:
            raise TooLargeError(f"{len(body):,} records, at most {most:,} are taken at once: send several requests")
        listed = [(str(place), each) for place, each in enumerate(body)]
    elif isinstance(body, dict):
        chosen = pop_options(body, options) if "sentences" in body else {}
        listed = list_messages(body, "sentences", most)
    else:
        raise DecodeError("the body is neither an object nor a list: send one record, or several in a list")
    converter = RecordConverter(query, backend)
    made, count = [], 0
    for number, (place, each) in enumerate(listed, 1):
        made.append(converter.convert(each, number, place, max_sentences=most - count))
        count += len(made[-1].sentences)
    return ParsedRecords(made, chosen)


async def convert_lines(
    lines: Sequence[BodyLine], converter: RecordConverter
) -> dict[int, ConvertedRecord | Exception]:
    """By the line's number: what came of it, or what is wrong with it."""
    return await asyncio.to_thread(converter.convert_lines, lines)


class RecordConverter:
    """The records of one request to sentences. Called in threads, one after the other."""

    def __init__(self, query: RecordQuery, backend: Backend) -> None:
        self._query = query
        self._backend = backend
        self._max_words = backend.max_words
        self._options_by_dataset: dict[str, ReadOptions] = {}

    def convert_lines(self, lines: Sequence[BodyLine]) -> dict[int, ConvertedRecord | Exception]:
        found: dict[int, ConvertedRecord | Exception] = {}
        limits = self._backend.settings
        for line in lines:
            try:
                if line.raw is None:
                    raise TooLongError(f"the line is longer than {limits.max_line_bytes:,} bytes: split the record")
                found[line.number] = self.convert(
                    parse_json(line.raw), line.number, None, max_sentences=limits.max_sentences
                )
            except (InvalidInput, TooLargeError) as error:
                found[line.number] = error
        return found

    def convert(self, value: object, number: int, location: str | None, *, max_sentences: int) -> ConvertedRecord:
        """`most`: how many sentences there is room for."""
        if not isinstance(value, dict):
            raise with_record_number(
                InvalidInput("it is no object: give it as the platform exports it"), number, location
            )
        try:
            form = self._resolve_format(value)
            sentences: list[LabelledSentence] = []
            for sentence in self._iter_sentences(value, form):
                if len(sentences) >= max_sentences:
                    raise TooLargeError(
                        f"record {number}: with it there are more than {self._backend.settings.max_sentences:,} "
                        "sentences, which is as many as are taken at once: send several requests",
                        field=location,
                    )
                sentences.append(sentence)
        except InvalidInput as error:
            raise with_record_number(error, number, location) from None
        return ConvertedRecord(number, form, tuple(sentences), location)

    def _resolve_format(self, record: Mapping[str, Any]) -> str:
        if self._query.format != AUTO_FORMAT:
            return self._query.format
        found = detect_record_format(record)
        if found is None:
            raise InvalidInput(f"its fields don't tell the format: name it with `format`, one of {EXPLICIT_FORMATS}")
        return found

    def _iter_sentences(self, record: dict[str, Any], form: str) -> Iterator[LabelledSentence]:
        wanted = self._query.dataset
        if form == WORDS_FORMAT:
            fields = record if wanted is None else {**record, "dataset": wanted}
            yield _ensure_id(read_sentence(fields, max_words=self._max_words, unknown_fields="forbid"))
            return
        convert = FORMATS[form].convert
        if convert is None:  # then its name is none that can be asked for
            raise InvalidInput(f"{form!r} holds no records", field="format")
        own = record.get("dataset") if FORMATS[form].has_dataset else None
        options = self._get_options(wanted or (own if isinstance(own, str) else "default"), form)
        for made in convert_object(convert, record, options):
            if isinstance(made, InvalidInput):
                raise made
            fields = made if wanted is None else {**made, "dataset": wanted}
            yield _ensure_id(build_sentence(fields, options))

    def _get_options(self, dataset: str, form: str) -> ReadOptions:
        """How the converters read for a dataset: spans become labels in its own scheme."""
        key = f"{form} {dataset}"
        found = self._options_by_dataset.get(key)
        if found is None:
            if len(self._options_by_dataset) >= MAX_CACHED_OPTIONS:
                self._options_by_dataset.clear()
            check_dataset_name(dataset)
            settings = self._backend.settings
            found = self._options_by_dataset[key] = ReadOptions(
                word=self._query.field,
                label=self._query.control,
                label_names=self._query.label_names,
                max_words=self._max_words,
                base_url=get_platform_url(settings, FORMATS[form]),
                scheme=self._backend.state_view.get_judge(dataset).scheme,
            )
        return found


def with_record_number(
    error: InvalidInput, number: int, location: str | None, *, identity: str | None = None
) -> InvalidInput:
    """The error with its record's number, in the words of REST. `identity`: the sentence, of several."""
    field = join_path((location, error.field))
    within = str(InvalidInput("", field=field, word=error.word, token=error.token)).removesuffix(": ")
    problem = _CLI_OPTION_PATTERN.sub(lambda option: _CLI_TO_QUERY[option.group()], error.problem)
    found = type(error)(
        f"record {number}{f' ({identity})' if identity else ''}{', ' if within else ''}{within}: {problem}"
    )
    found.field, found.word, found.token = field, error.word, error.token
    return found


def _ensure_id(sentence: LabelledSentence) -> LabelledSentence:
    return sentence if sentence.id is not None else sentence.model_copy(update={"id": str(uuid.uuid4())})


def _to_record_sentence(sentence: LabelledSentence) -> RecordSentence:
    meta = sentence.meta or {}
    return RecordSentence.model_validate(
        {
            "id": sentence.id,
            "alignment": meta.get("alignment") if meta.get("alignment") in ("exact", "expanded") else None,
            "given_offsets": "utf-16" if meta.get("given_offsets") == "utf-16" else None,
            "deleted": sentence.deleted,
        }
    )
