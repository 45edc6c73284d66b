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
from pydantic_core import from_json, to_json

from service.api.http.bodies import one_or_many, taken_out
from service.api.http.problems import TooLargeError
from service.api.ingest.query import AUTO, FORMAT_NAMES, WORDS, Wanted, check_dataset, recognised
from service.contracts import LabelledSentence, read_sentence
from service.contracts.validation import not_json, path
from service.errors import DecodeError, InvalidInput, TooLongError
from service.formats import FORMATS, Options
from service.formats.platforms.common import caught
from service.formats.records import sentence_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.api.backend import Backend
    from service.api.http.line_spool import Line

NOTHING: Final = "nothing in it says how words are labelled: no annotation, a draft, or an event about something else"
CARRIES_DATASET: Final = "spans"
NAMED: Final = ", ".join(name for name in FORMAT_NAMES if name != AUTO)
KEPT_OPTIONS: Final = 20  # one for each dataset that records name

# What converters tell those who read files, in the words of a query.
_OPTIONS: Final = {"--label-names ": "label_names=", "--word-column": "field=", "--label-column": "control="}
_OPTION: Final = re.compile("|".join(_OPTIONS))


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
class Made:
    """The sentences of a record. `place`: what its fields are called by from the body's beginning."""

    number: int
    format: str
    sentences: tuple[LabelledSentence, ...]
    place: str | None = None

    def outcome(self) -> RecordOutcome:
        return RecordOutcome(
            record=self.number,
            format=self.format,
            sentences=[_told(sentence) for sentence in self.sentences],
            ignored=None if self.sentences else NOTHING,
        )

    def line(self) -> bytes:
        """The same for a record that was a line."""
        fields = self.outcome().model_dump(exclude_none=True)
        return to_json({"line": fields.pop("record"), **fields})


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a body, and what else it says."""

    made: list[Made]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def sentences(self) -> list[LabelledSentence]:
        return [sentence for one in self.made for sentence in one.sentences]

    def outcomes(self) -> list[RecordOutcome]:
        return [one.outcome() for one in self.made]


# -- bodies ------------------------------------------------------------------------------------------------------------


async def read_records(raw: bytes, wanted: Wanted, backend: Backend, *, options: tuple[str, ...] = ()) -> Records:
    """One record, a list, or `{"sentences": […]}` beside which `options` may stand. The first error is raised."""
    return await asyncio.to_thread(_read_records, raw, wanted, backend, options)


def _read_records(raw: bytes, wanted: Wanted, backend: Backend, options: tuple[str, ...]) -> Records:
    most = backend.settings.max_sentences
    body = _parsed(raw)
    chosen: dict[str, str] = {}
    listed: list[tuple[str | None, object]]
    if isinstance(body, list):
        if not body:
            raise InvalidInput("the list is empty: give at least one record")
        if len(body) > most:
            raise TooLargeError(f"{len(body):,} records, at most {most:,} are taken at once: send several requests")
        listed = [(str(place), each) for place, each in enumerate(body)]
    elif isinstance(body, dict):
        chosen = taken_out(body, options) if "sentences" in body else {}
        listed = one_or_many(body, "sentences", most)
    else:
        raise DecodeError("the body is neither an object nor a list: send one record, or several in a list")
    converter = Converting(wanted, backend)
    made, count = [], 0
    for number, (place, each) in enumerate(listed, 1):
        made.append(converter.record(each, number, place, most=most - count))
        count += len(made[-1].sentences)
    return Records(made, chosen)


async def read_lines(lines: Sequence[Line], converter: Converting) -> dict[int, Made | Exception]:
    """By the line's number: what came of it, or what is wrong with it."""
    return await asyncio.to_thread(converter.lines, lines)


def _parsed(raw: bytes) -> object:
    try:
        found: object = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise not_json(raw, error) from None
    return found


class Converting:
    """The records of one request to sentences. Called in threads, one after the other."""

    def __init__(self, wanted: Wanted, backend: Backend) -> None:
        self._wanted = wanted
        self._backend = backend
        self._max_words = backend.max_words
        self._datasets: dict[str, Options] = {}

    def lines(self, lines: Sequence[Line]) -> dict[int, Made | Exception]:
        found: dict[int, Made | Exception] = {}
        limits = self._backend.settings
        for line in lines:
            try:
                if line.raw is None:
                    raise TooLongError(f"the line is longer than {limits.max_line_bytes:,} bytes: split the record")
                found[line.number] = self.record(_parsed(line.raw), line.number, None, most=limits.max_sentences)
            except (InvalidInput, TooLargeError) as error:
                found[line.number] = error
        return found

    def record(self, value: object, number: int, place: str | None, *, most: int) -> Made:
        """`most`: how many sentences there is room for."""
        if not isinstance(value, dict):
            raise told(InvalidInput("it is no object: give it as the platform exports it"), number, place)
        try:
            form = self._format(value)
            sentences: list[LabelledSentence] = []
            for sentence in self._sentences(value, form):
                if len(sentences) >= most:
                    raise TooLargeError(
                        f"record {number}: with it there are more than {self._backend.settings.max_sentences:,} "
                        "sentences, which is as many as are taken at once: send several requests",
                        field=place,
                    )
                sentences.append(sentence)
        except InvalidInput as error:
            raise told(error, number, place) from None
        return Made(number, form, tuple(sentences), place)

    def _format(self, record: Mapping[str, Any]) -> str:
        if self._wanted.format != AUTO:
            return self._wanted.format
        found = recognised(record)
        if found is None:
            raise InvalidInput(f"its fields don't tell the format: name it with `format`, one of {NAMED}")
        return found

    def _sentences(self, record: dict[str, Any], form: str) -> Iterator[LabelledSentence]:
        wanted = self._wanted.dataset
        if form == WORDS:
            fields = record if wanted is None else {**record, "dataset": wanted}
            yield _named(read_sentence(fields, max_words=self._max_words, unknown_fields="forbid"))
            return
        convert = FORMATS[form].convert
        if convert is None:  # then its name is none that can be asked for
            raise InvalidInput(f"{form!r} holds no records", field="format")
        own = record.get("dataset") if form == CARRIES_DATASET else None
        options = self._options(wanted or (own if isinstance(own, str) else "default"), form)
        for made in caught(convert, record, options):
            if isinstance(made, InvalidInput):
                raise made
            fields = made if wanted is None else {**made, "dataset": wanted}
            yield _named(sentence_of(fields, options))

    def _options(self, dataset: str, form: str) -> Options:
        """How the converters read for a dataset: spans become labels in its own scheme."""
        key = f"{form} {dataset}"
        found = self._datasets.get(key)
        if found is None:
            if len(self._datasets) >= KEPT_OPTIONS:
                self._datasets.clear()
            check_dataset(dataset)
            settings = self._backend.settings
            found = self._datasets[key] = Options(
                word=self._wanted.field,
                label=self._wanted.control,
                label_names=self._wanted.label_names,
                max_words=self._max_words,
                base_url={"label-studio": settings.label_studio_url, "argilla": settings.argilla_url}.get(form),
                scheme=self._backend.mirror.judge(dataset).scheme,
            )
        return found


def told(error: InvalidInput, number: int, place: str | None, *, identity: str | None = None) -> InvalidInput:
    """The error with its record's number, in the words of REST. `identity`: the sentence, of several."""
    field = path((place, error.field))
    within = str(InvalidInput("", field=field, word=error.word, token=error.token)).removesuffix(": ")
    problem = _OPTION.sub(lambda option: _OPTIONS[option.group()], error.problem)
    found = type(error)(
        f"record {number}{f' ({identity})' if identity else ''}{', ' if within else ''}{within}: {problem}"
    )
    found.field, found.word, found.token = field, error.word, error.token
    return found


def _named(sentence: LabelledSentence) -> LabelledSentence:
    return sentence if sentence.id is not None else sentence.model_copy(update={"id": str(uuid.uuid4())})


def _told(sentence: LabelledSentence) -> RecordSentence:
    meta = sentence.meta or {}
    return RecordSentence.model_validate(
        {
            "id": sentence.id,
            "alignment": meta.get("alignment") if meta.get("alignment") in ("exact", "expanded") else None,
            "given_offsets": "utf-16" if meta.get("given_offsets") == "utf-16" else None,
            "deleted": sentence.deleted,
        }
    )
