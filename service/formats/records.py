"""What every reader gives: sentences with the place they came from, or the reason why there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from service.contracts import MAX_WORDS, LabelledSentence, read_sentence
from service.errors import DecodeError, InvalidInput
from service.labels import Scheme

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Where a foreign file calls the same thing by another name. The first name that is there counts.
WORD_FIELDS = ("tokens", "words")
LABEL_FIELDS = ("labels", "ner_tags", "tags")
ID_FIELDS = ("id", "sentence_id", "sent_id")
# Fields of a sentence that are handed through when a file has them.
PASSTHROUGH_FIELDS = ("dataset", "revision", "update", "deleted", "annotator", "source", "annotated_at", "meta")
_MAX_SOURCE_LENGTH = 2048
_ESCAPED_BYTES = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file where its own names don't say it.

    `word` and `label` name the column or field (column files: its number, 1 is the first and -1 the last), `sentence`
    the column that tells the sentences of a table apart. `comments` says what a line is that starts with "#" in a
    column file; "auto" knows comments from words by the rules in `service.formats.plain.conll`. Of a platform's tasks
    `word` names the field of the text and `label` the question or control that holds the spans; `base_url` is where
    the platform is, for links back, and `scheme` the one that spans are written in as labels.
    """

    word: str | None = None
    label: str | None = None
    sentence: str | None = None
    rows: Literal["word", "sentence"] | None = None
    label_names: tuple[str, ...] = ()
    comments: Literal["auto", "yes", "no"] = "auto"
    encoding: str | None = None
    id_prefix: str = ""
    max_words: int = MAX_WORDS
    base_url: str | None = None
    scheme: Scheme = Scheme.IOB2


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One sentence of a file, or the error that stands where it should be. `place` is `file:line`."""

    location: str
    sentence: LabelledSentence | None = None
    error: InvalidInput | None = None


def find_words(record: Mapping[str, Any]) -> list[Any] | None:
    """The words of a JSON object: the first field of `WORD_FIELDS` that holds a list."""
    return next((record[name] for name in WORD_FIELDS if isinstance(record.get(name), list)), None)


def with_file_location(error: InvalidInput, location: str) -> InvalidInput:
    """The same error, with the place in its message."""
    told = type(error)(f"{location}: {error}")
    told.field, told.sentence, told.word, told.token = error.field, error.sentence, error.word, error.token
    return told


def reject(error: InvalidInput, location: str) -> FileRecord:
    return FileRecord(location, error=with_file_location(error, location))


def make_record(fields: dict[str, Any], *, location: str, number: int, options: ReadOptions) -> FileRecord:
    """Builds the sentence; without an id of its own it is called by its number, without a link by its place."""
    if fields.get("id") in (None, ""):
        fields["id"] = f"{options.id_prefix}{number}"
    if fields.get("source") in (None, "") and len(location) <= _MAX_SOURCE_LENGTH:
        fields["source"] = location
    try:
        return FileRecord(location, build_sentence(fields, options))
    except InvalidInput as error:
        return reject(error, location)


def build_sentence(fields: dict[str, Any], options: ReadOptions) -> LabelledSentence:
    """The sentence of a record's fields, with names for numbered labels."""
    if isinstance(fields.get("labels"), list):
        try:
            fields = {**fields, "labels": resolve_label_names(fields["labels"], options.label_names)}
        except InvalidInput as error:
            tokens = fields.get("tokens")
            if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
                error.attach_token(tokens)
            raise
    return read_sentence(fields, max_words=options.max_words)


def resolve_label_names(values: Iterable[Any], names: Sequence[str]) -> list[Any]:
    """Gives numbered labels their names. Whatever is neither a number nor a text is left for validation to name."""
    labels: list[Any] = []
    for word, value in enumerate(values):
        number = _parse_label_number(value, names)
        if number is None:
            labels.append(value)
        elif not names:
            raise InvalidInput(
                f"the label is the number {number}: say what the numbers mean with --label-names O,B-PER,…",
                field="labels",
                word=word,
            )
        elif not 0 <= number < len(names):
            raise InvalidInput(
                f"the label is the number {number}, and {len(names)} label names are known (0 to {len(names) - 1})",
                field="labels",
                word=word,
            )
        else:
            labels.append(names[number])
    return labels


def _parse_label_number(value: Any, names: Sequence[str]) -> int | None:  # noqa: ANN401 - whatever the file holds
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    # Text files write numbers as text; without names "1" may well be a label's name.
    if names and isinstance(value, str) and value.isascii() and value.isdigit() and value not in names:
        return int(value)
    return None


def check_text(text: str, encoding: str) -> None:
    """Sources are decoded with `surrogateescape`, so that a bad byte costs its sentence and not the file."""
    bad = None if text.isascii() else _ESCAPED_BYTES.search(text)
    if bad:
        byte = ord(bad.group()) - 0xDC00
        raise DecodeError(f"byte 0x{byte:02x} is not {encoding}: name the file's encoding with --encoding, say cp1252")
