"""Labelled sentences as files again, each as our own readers take it back.

| format | holds |
|---|---|
| conll | `# id = …`, then a word, a tab and its label a line; a blank line after each sentence |
| jsonl | one object a sentence with all its fields |
| csv, tsv | one row a sentence, words and labels as JSON arrays; one row a word where all came so |
| label-studio, argilla | an array of tasks or records, as the platform exports them and takes them in again |
| doccano, prodigy, huggingface, spans | one object a line, likewise |
"""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Final, Literal, TextIO, TypeAlias, get_args

from service.errors import InvalidInput
from service.formats.plain import line_writers as lines
from service.formats.plain.conll import LABEL_PATTERN
from service.formats.platforms.argilla import write as argilla
from service.formats.platforms.label_studio import write as label_studio
from service.formats.text.restored_text import DEFAULT_FORMAT, WriteContext, get_original_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from service.contracts import LabelledSentence

SentenceFormat = Literal[
    "conll", "jsonl", "csv", "tsv", "label-studio", "argilla", "doccano", "prodigy", "huggingface", "spans"
]
SENTENCE_FORMATS: Final[tuple[SentenceFormat, ...]] = get_args(SentenceFormat)
SENTENCE_COLUMNS: Final = ("id", "tokens", "labels", "revision", "annotator", "source", "annotated_at")
WORD_COLUMNS: Final = ("sentence_id", "word", "label")
_UNSAFE_IN_COLUMN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_UNSAFE_IN_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_LOOKS_QUOTED = re.compile(r'^".*"".*"$')  # readers take it for a cell that is quoted
_DOCUMENT_MARK = "-DOCSTART-"

SentenceWriter: TypeAlias = "Callable[[TextIO, Iterable[LabelledSentence], WriteContext], None]"


def write_sentences(
    stream: TextIO, form: SentenceFormat, sentences: Iterable[LabelledSentence], context: WriteContext | None = None
) -> None:
    """Writes them all. Open the stream with `newline=""`. `telling` says afterwards what had to be changed."""
    _WRITERS[form](stream, sentences, context or WriteContext())


def choose_format(sentence: LabelledSentence) -> SentenceFormat:
    """The format to write a sentence in where nobody names one."""
    found = get_original_format(sentence)
    return next((form for form in SENTENCE_FORMATS if form == found), DEFAULT_FORMAT)


def get_extension(form: SentenceFormat) -> str:
    if form in ("label-studio", "argilla"):
        return ".json"
    return f".{form}" if form in ("conll", "csv", "tsv") else ".jsonl"


# -- words and labels --------------------------------------------------------------------------------------------------


def _write_jsonl(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    stream.writelines(
        sentence.model_dump_json(exclude_none=True, exclude={"update", "deleted"}) + "\n" for sentence in sentences
    )


def _write_csv(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    _write_table(csv.writer(stream, lineterminator="\n").writerow, list(sentences))


def _write_tsv(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    """Without quoting, as most read it: a word `"` is just that."""

    def row(cells: Iterable[object]) -> None:
        stream.write("\t".join(map(str, cells)) + "\n")

    made = list(sentences)
    by_word = _is_row_per_word(made)
    for sentence in made:
        told = (sentence.id, sentence.annotator, sentence.source, *(sentence.tokens if by_word else ()))
        if any(_UNSAFE_IN_LINE.search(text) or _LOOKS_QUOTED.search(text) for text in told if text is not None):
            raise InvalidInput(
                "a tab, a line break or doubled quotes in it can't stand in a TSV file: use csv", sentence=sentence.id
            )
    _write_table(row, made)


def _is_row_per_word(sentences: Iterable[LabelledSentence]) -> bool:
    return all((sentence.meta or {}).get("rows") == "word" for sentence in sentences)


def _write_table(write_row: Callable[[Iterable[object]], object], sentences: list[LabelledSentence]) -> None:
    if sentences and _is_row_per_word(sentences):
        write_row(WORD_COLUMNS)
        for sentence in sentences:
            for place, (word, label) in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
                if not word or not label.strip() or {"\n", "\r"} & {*word, *label}:
                    raise InvalidInput(
                        "one row a word can't hold what is empty or has line breaks: use jsonl",
                        sentence=sentence.id,
                        word=place,
                    )
                write_row((sentence.id, word, label))
        return
    write_row(SENTENCE_COLUMNS)
    for sentence in sentences:
        fields = sentence.model_dump(mode="json")
        lists = {name: json.dumps(fields[name], ensure_ascii=False) for name in ("tokens", "labels")}
        write_row("" if value is None else value for value in ({**fields, **lists}[name] for name in SENTENCE_COLUMNS))


def _write_conll(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    stream.writelines("\n".join(_format_columns(sentence)) + "\n\n" for sentence in sentences)


def _format_columns(sentence: LabelledSentence) -> list[str]:
    """Refuses what the columns would give back as something else."""
    found = []
    if sentence.id is not None:
        if _UNSAFE_IN_LINE.search(sentence.id) or sentence.id != sentence.id.strip():
            raise _build_column_error(sentence, "its id can't stand in a line")
        found.append(f"# id = {sentence.id}")
    for place, (word, label) in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
        for what, text in (("word", word), ("label", label)):
            if not text or _UNSAFE_IN_COLUMN.search(text):
                raise _build_column_error(sentence, f"the {what} {text!r} is empty or holds a space", word=place)
        if word.startswith(_DOCUMENT_MARK):
            raise _build_column_error(sentence, f"the word {word!r} would be the mark between documents", word=place)
        if word.startswith("#") and place == 0 and word != "#" and not LABEL_PATTERN.match(label):
            raise _build_column_error(sentence, f"the word {word!r} may be taken for a comment", word=place)
        found.append(f"{word}\t{label}")
    return found


def _build_column_error(sentence: LabelledSentence, problem: str, *, word: int | None = None) -> InvalidInput:
    return InvalidInput(f"{problem}, which columns can't hold: use jsonl", sentence=sentence.id, word=word)


_WRITERS: Final[Mapping[SentenceFormat, SentenceWriter]] = {
    "conll": _write_conll,
    "jsonl": _write_jsonl,
    "csv": _write_csv,
    "tsv": _write_tsv,
    "label-studio": label_studio.write,
    "argilla": argilla.write,
    "doccano": lines.write_doccano,
    "prodigy": lines.write_prodigy,
    "huggingface": lines.write_huggingface,
    "spans": lines.write_spans,
}
