"""What the converters of annotation platforms share: they give the fields of sentences, or the reason for none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, urlsplit

from service.contracts import LabelledSentence, read_sentence
from service.errors import InvalidInput
from service.formats.io.json_objects import read_objects
from service.formats.records import FileRecord, ReadOptions, make_record, reject
from service.formats.text.alignment import TextSpan, align_spans
from service.formats.text.offsets import CHARACTERS, OffsetUnit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from service.formats.io.json_objects import NumberedObject
    from service.formats.io.source import TextSource
    from service.formats.text.word_splitter import CharacterRange

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_EXTRA_FIELDS_LENGTH: Final = 2_000  # characters of JSON a sentence

# The fields of one sentence, or why an annotation gives none.
ConvertedFields: TypeAlias = dict[str, Any] | InvalidInput
ObjectConverter: TypeAlias = "Callable[[Mapping[str, Any], ReadOptions], Iterable[ConvertedFields]]"


@dataclass(frozen=True, slots=True)
class ConvertedEvent:
    """What came of a platform's event: sentences to send, or why there is nothing to do.

    `tasks` are gone, with all that was annotated in them: whoever keeps the annotations may know some of these.
    `refused`: what can't be read, where others in the event can.
    """

    event: str
    sentences: tuple[LabelledSentence, ...] = ()
    ignored_reason: str | None = None
    deleted_tasks: tuple[str, ...] = ()
    errors: tuple[InvalidInput, ...] = ()


def build_reader(
    convert: ObjectConverter, iterate_objects: Callable[[TextSource], Iterator[NumberedObject]] = read_objects
) -> Callable[[TextSource, ReadOptions], Iterator[FileRecord]]:
    """Reads a file of JSON objects, each of which may give several sentences."""

    def read(source: TextSource, options: ReadOptions) -> Iterator[FileRecord]:
        number = 0
        for line, found in iterate_objects(source):
            place = source.format_location(line)
            for made in convert_object(convert, found, options):
                number += 1
                if isinstance(made, InvalidInput):
                    yield reject(made, place)
                else:
                    yield make_record(made, location=place, number=number, options=options)

    return read


def convert_object(
    convert: ObjectConverter, record: dict[str, Any] | InvalidInput, options: ReadOptions
) -> Iterator[ConvertedFields]:
    """What a converter raises is about the whole object: no sentence behind it can come any more."""
    if isinstance(record, InvalidInput):
        yield record
        return
    try:
        yield from convert(record, options)
    except InvalidInput as error:
        yield error


def check_label_option(source: TextSource, options: ReadOptions, known_names: Collection[str]) -> None:
    """What was named as holding the spans must be somewhere in a file that has some: else it is misspelt.

    One annotation alone does not tell that: it may have no span of it.
    """
    if options.label is not None and known_names and options.label not in known_names:
        there = ", ".join(sorted(known_names)[:10])
        raise InvalidInput(f"{source.name}: no span in it is of {options.label}, only of {there}: name one of these")


def build_converted_event(
    event: str, converted: Iterable[ConvertedFields], *, dataset: str, max_words: int, ignored_reason: str | None = None
) -> ConvertedEvent:
    """Sentences of an event as messages; where there are only errors, the first is raised."""
    sentences, refused = [], []
    for fields in converted:
        try:
            if isinstance(fields, InvalidInput):
                raise fields
            sentences.append(read_sentence({**fields, "dataset": dataset}, max_words=max_words))
        except InvalidInput as error:
            refused.append(error)
    if refused and not sentences:
        raise refused[0]
    return ConvertedEvent(event, tuple(sentences), ignored_reason, errors=tuple(refused))


def build_labelled_fields(
    text: object,
    spans: Sequence[TextSpan],
    options: ReadOptions,
    *,
    field: str = "text",
    words: Sequence[CharacterRange] | None = None,
    splitter: str | None = None,
    unit: OffsetUnit = CHARACTERS,
) -> dict[str, Any]:
    """The fields `tokens`, `labels` and `meta` of a text with spans; `unit` is what the platform's editor counts."""
    if not isinstance(text, str):
        raise InvalidInput("it is missing" if text is None else "it must be text", field=field)
    named = {"splitter": splitter} if splitter is not None else {}
    aligned = align_spans(text, spans, scheme=options.scheme, words=words, field=field, unit=unit, **named)
    return {"tokens": aligned.tokens, "labels": aligned.labels, "meta": aligned.meta}


def pack_extra_fields(extra: Mapping[str, Any]) -> dict[str, Any]:
    """For a message's `meta`: what else stood there, for the way back, as far as it is small."""
    found = select_small_fields(extra)
    return {"kept": found} if found else {}


def select_small_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The small fields first; those that go past the limit are left out."""
    written: dict[str, str] = {}
    for name, value in fields.items():
        try:
            text = json.dumps({name: value}, allow_nan=False, ensure_ascii=False)
            text.encode()
        except ValueError:  # NaN, or half of a surrogate pair: no message can hold it
            continue
        written[name] = text
    room, chosen = MAX_EXTRA_FIELDS_LENGTH, set()
    for name in sorted(written, key=lambda name: len(written[name])):
        room -= len(written[name])
        if room < 0:
            break
        chosen.add(name)
    return {name: value for name, value in fields.items() if name in chosen}


def parse_timestamp(value: object, field: str) -> datetime:
    """A platform's time; one without a zone is UTC."""
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value)
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
        else:
            return found
    raise InvalidInput(f"{str(value)[:40]!r} is no time in ISO 8601", field=field)


def to_microseconds(at: datetime) -> int:
    """A time as a revision: it grows each time the annotation is saved."""
    past = at - EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def build_revision_fields(value: object, field: str) -> dict[str, Any]:
    """`revision` and `annotated_at` of a time that may be missing."""
    if value is None:
        return {}
    at = parse_timestamp(value, field)
    return {"revision": to_microseconds(at), "annotated_at": at.isoformat()}


def to_name(value: object) -> str | None:
    """A user's or record's name, whatever it is written as."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | str) and value != "":
        return str(value)
    return None


def require_object(value: object, field: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise InvalidInput("it is missing" if value is None else "it must be an object", field=field)


def require_array(value: object, field: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise InvalidInput("it is missing" if value is None else "it must be an array", field=field)


def quote_for_url(name: str) -> str:
    """For a link. What is no text there is refused elsewhere."""
    return quote(name, safe="", errors="replace")


def normalize_base_url(url: str) -> str:
    """The platform's address without a slash at its end; only what a browser may be sent to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidInput(f"{url!r} is no address such as https://annotate.example.org", field="base_url")
    return url.rstrip("/")
