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
from service.formats.records import Options, Record, make_record, rejected
from service.formats.text.alignment import TextSpan, align
from service.formats.text.offsets import CHARACTERS, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from service.formats.io.json_objects import Numbered
    from service.formats.io.source import Source
    from service.formats.text.word_splitter import Word

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MAX_KEPT: Final = 2_000  # characters of JSON a sentence

# The fields of one sentence, or why an annotation gives none.
Converted: TypeAlias = dict[str, Any] | InvalidInput
Converter: TypeAlias = "Callable[[Mapping[str, Any], Options], Iterable[Converted]]"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What came of a platform's event: sentences to send, or why there is nothing to do.

    `tasks` are gone, with all that was annotated in them: whoever keeps the annotations may know some of these.
    `refused`: what can't be read, where others in the event can.
    """

    event: str
    sentences: tuple[LabelledSentence, ...] = ()
    ignored: str | None = None
    tasks: tuple[str, ...] = ()
    refused: tuple[InvalidInput, ...] = ()


def reader(
    convert: Converter, objects: Callable[[Source], Iterator[Numbered]] = read_objects
) -> Callable[[Source, Options], Iterator[Record]]:
    """Reads a file of JSON objects, each of which may give several sentences."""

    def read(source: Source, options: Options) -> Iterator[Record]:
        number = 0
        for line, found in objects(source):
            place = source.place(line)
            for made in caught(convert, found, options):
                number += 1
                if isinstance(made, InvalidInput):
                    yield rejected(made, place)
                else:
                    yield make_record(made, place=place, number=number, options=options)

    return read


def caught(convert: Converter, found: dict[str, Any] | InvalidInput, options: Options) -> Iterator[Converted]:
    """What a converter raises is about the whole object: no sentence behind it can come any more."""
    if isinstance(found, InvalidInput):
        yield found
        return
    try:
        yield from convert(found, options)
    except InvalidInput as error:
        yield error


def check_named(source: Source, options: Options, met: Collection[str]) -> None:
    """What was named as holding the spans must be somewhere in a file that has some: else it is misspelt.

    One annotation alone does not tell that: it may have no span of it.
    """
    if options.label is not None and met and options.label not in met:
        there = ", ".join(sorted(met)[:10])
        raise InvalidInput(f"{source.name}: no span in it is of {options.label}, only of {there}: name one of these")


def delivered(
    event: str, converted: Iterable[Converted], *, dataset: str, max_words: int, ignored: str | None = None
) -> Delivery:
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
    return Delivery(event, tuple(sentences), ignored, refused=tuple(refused))


def labelled(
    text: object,
    spans: Sequence[TextSpan],
    options: Options,
    *,
    field: str = "text",
    words: Sequence[Word] | None = None,
    splitter: str | None = None,
    unit: Unit = CHARACTERS,
) -> dict[str, Any]:
    """The fields `tokens`, `labels` and `meta` of a text with spans; `unit` is what the platform's editor counts."""
    if not isinstance(text, str):
        raise InvalidInput("it is missing" if text is None else "it must be text", field=field)
    named = {"splitter": splitter} if splitter is not None else {}
    aligned = align(text, spans, scheme=options.scheme, words=words, field=field, unit=unit, **named)
    return {"tokens": aligned.tokens, "labels": aligned.labels, "meta": aligned.meta}


def kept(others: Mapping[str, Any]) -> dict[str, Any]:
    """For a message's `meta`: what else stood there, for the way back, as far as it is small."""
    found = small(others)
    return {"kept": found} if found else {}


def small(others: Mapping[str, Any]) -> dict[str, Any]:
    """The small fields first; those that go past the limit are left out."""
    written: dict[str, str] = {}
    for name, value in others.items():
        try:
            text = json.dumps({name: value}, allow_nan=False, ensure_ascii=False)
            text.encode()
        except ValueError:  # NaN, or half of a surrogate pair: no message can hold it
            continue
        written[name] = text
    room, chosen = MAX_KEPT, set()
    for name in sorted(written, key=lambda name: len(written[name])):
        room -= len(written[name])
        if room < 0:
            break
        chosen.add(name)
    return {name: value for name, value in others.items() if name in chosen}


def moment(value: object, field: str) -> datetime:
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


def microseconds(at: datetime) -> int:
    """A time as a revision: it grows each time the annotation is saved."""
    past = at - EPOCH
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def dated(value: object, field: str) -> dict[str, Any]:
    """`revision` and `annotated_at` of a time that may be missing."""
    if value is None:
        return {}
    at = moment(value, field)
    return {"revision": microseconds(at), "annotated_at": at.isoformat()}


def name_of(value: object) -> str | None:
    """A user's or record's name, whatever it is written as."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | str) and value != "":
        return str(value)
    return None


def mapping(value: object, field: str) -> Mapping[str, Any]:
    if isinstance(value, dict):
        return value
    raise InvalidInput("it is missing" if value is None else "it must be an object", field=field)


def listing(value: object, field: str) -> list[Any]:
    if isinstance(value, list):
        return value
    raise InvalidInput("it is missing" if value is None else "it must be an array", field=field)


def quoted(name: str) -> str:
    """For a link. What is no text there is refused elsewhere."""
    return quote(name, safe="", errors="replace")


def link_base(url: str) -> str:
    """The platform's address without a slash at its end; only what a browser may be sent to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InvalidInput(f"{url!r} is no address such as https://annotate.example.org", field="base_url")
    return url.rstrip("/")
