"""Records of files: sentences with their location, or the error in their place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from service.contracts import MAX_BATCH_CHARS, MAX_DOCUMENT_CHARS, MAX_WORDS, LabelledSentence, read_sentence
from service.errors import DecodeError, InvalidInput
from service.formats.io.json_values import to_name
from service.formats.label_names import resolve_label_names
from service.labels import Scheme

if TYPE_CHECKING:
    from collections.abc import Mapping

# Names that files use for the same field. The first name that is present counts.
WORD_FIELDS = ("tokens", "words")
ID_FIELDS = ("id", "sentence_id", "sent_id")
DOCUMENT_FIELDS = ("document", "document_id", "doc_id", "doc")
# Fields of a sentence that are copied if a file has them.
PASSTHROUGH_FIELDS = (
    "dataset",
    "revision",
    "update",
    "deleted",
    "annotator",
    "source",
    "annotated_at",
    "meta",
    "probabilities",
)
_MAX_SOURCE_LENGTH = 2048
_ESCAPED_BYTES = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a file, as far as it does not say it itself.

    `word` and `label` name the column or field (in column files its number, 1 is the first and -1 the last), `sentence`
    the column that separates the sentences of a table. `comments` says whether lines that start with "#" in a column
    file are comments; "auto" decides by the rules in `service.formats.plain.conll.read`. For platforms `word` names the
    field of the text and `label` the question or control that holds the spans; `base_url` is the platform's address
    for links back, and `scheme` is the one in which spans become labels.
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
    """One sentence of a file, or the error in its place. `location` is `file:line`."""

    location: str
    sentence: LabelledSentence | None = None
    error: InvalidInput | None = None


def find_words(record: Mapping[str, Any]) -> list[Any] | None:
    """The words of a JSON object: the first field of `WORD_FIELDS` that holds a list."""
    return next((record[name] for name in WORD_FIELDS if isinstance(record.get(name), list)), None)


def find_document(*objects: object, text_field: str | None = None) -> str | None:
    """The document that JSON objects name: the first field of `DOCUMENT_FIELDS` that holds a name.

    A file may have a field of such a name for something else, such as the whole text. So `text_field` is no document,
    nor is a value that is too long or neither text nor a whole number. That is no error.
    """
    for record in objects:
        if not isinstance(record, dict):
            continue
        for name in DOCUMENT_FIELDS:
            document = None if name == text_field else to_name(record.get(name))
            if document is not None and len(document) <= MAX_DOCUMENT_CHARS:
                return document
    return None


def find_batch(*objects: object) -> str | None:
    """The delivery that JSON objects name in `batch`. As with documents, a field that can't be a name is no error."""
    names = (to_name(record.get("batch")) for record in objects if isinstance(record, dict))
    return next((name for name in names if name is not None and len(name) <= MAX_BATCH_CHARS), None)


def with_file_location(error: InvalidInput, location: str) -> InvalidInput:
    """The same error, with the location in its message."""
    located = type(error)(f"{location}: {error}")
    located.field, located.sentence, located.word, located.token = (
        error.field,
        error.sentence,
        error.word,
        error.token,
    )
    return located


def reject(error: InvalidInput, location: str) -> FileRecord:
    return FileRecord(location, error=with_file_location(error, location))


def make_record(fields: dict[str, Any], *, location: str, number: int, options: ReadOptions) -> FileRecord:
    """Builds a sentence. Without an id it gets its number, without a link its location."""
    if fields.get("id") in (None, ""):
        fields["id"] = f"{options.id_prefix}{number}"
    if fields.get("source") in (None, "") and len(location) <= _MAX_SOURCE_LENGTH:
        fields["source"] = location
    try:
        return FileRecord(location, build_sentence(fields, options))
    except InvalidInput as error:
        return reject(error, location)


def build_sentence(fields: dict[str, Any], options: ReadOptions) -> LabelledSentence:
    """Validates the fields of a sentence, and replaces numbered labels by their names."""
    if isinstance(fields.get("labels"), list):
        try:
            fields = {**fields, "labels": resolve_label_names(fields["labels"], options.label_names)}
        except InvalidInput as error:
            tokens = fields.get("tokens")
            if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
                error.attach_token(tokens)
            raise
    return read_sentence(fields, max_words=options.max_words)


def check_text(text: str, encoding: str) -> None:
    """Raises if the text has a byte that is not valid in the encoding.

    Sources are decoded with `surrogateescape`, so that such a byte is an error of its sentence and not of the file.
    """
    match = None if text.isascii() else _ESCAPED_BYTES.search(text)
    if match:
        byte = ord(match.group()) - 0xDC00
        raise DecodeError(f"byte 0x{byte:02x} is not {encoding}: name the file's encoding with --encoding, say cp1252")
