"""Labelled sentences as files again: CoNLL columns, JSON Lines or CSV, each as our own readers take it back.

| format | holds |
|---|---|
| conll | `# id = …`, then a word, a tab and its label a line; a blank line after each sentence |
| jsonl | one object a sentence with all its fields |
| csv   | one row a sentence, words and labels as JSON arrays |
"""

from __future__ import annotations

import csv
import json
import re
from typing import TYPE_CHECKING, Final, Literal, TextIO, get_args

from service.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.contracts import LabelledSentence

SentenceFormat = Literal["conll", "jsonl", "csv"]
SENTENCE_FORMATS: Final[tuple[str, ...]] = get_args(SentenceFormat)
CSV_COLUMNS: Final = ("id", "tokens", "labels", "revision", "annotator", "source", "annotated_at")
_BROKEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_BROKEN_ID = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_DOCUMENT = "-DOCSTART-"


def sentence_writer(stream: TextIO, form: SentenceFormat) -> Callable[[LabelledSentence], None]:
    """A function that writes one sentence. Open the stream with `newline=""`."""
    if form == "conll":
        return lambda sentence: _write_columns(stream, sentence)
    if form == "jsonl":
        return lambda sentence: _write_line(stream, sentence)
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(CSV_COLUMNS)

    def write(sentence: LabelledSentence) -> None:
        fields = sentence.model_dump(mode="json")
        lists = {name: json.dumps(fields[name], ensure_ascii=False) for name in ("tokens", "labels")}
        rows.writerow(["" if value is None else value for value in ({**fields, **lists}[name] for name in CSV_COLUMNS)])

    return write


def _write_line(stream: TextIO, sentence: LabelledSentence) -> None:
    stream.write(sentence.model_dump_json(exclude_none=True, exclude={"update", "deleted"}) + "\n")


def _write_columns(stream: TextIO, sentence: LabelledSentence) -> None:
    """Refuses what the columns would give back as something else."""
    lines = []
    if sentence.id is not None:
        if _BROKEN_ID.search(sentence.id) or sentence.id != sentence.id.strip():
            raise _unfit(sentence, "its id can't stand in a line")
        lines.append(f"# id = {sentence.id}")
    for place, (word, label) in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
        for what, text in (("word", word), ("label", label)):
            if not text or _BROKEN.search(text):
                raise _unfit(sentence, f"the {what} {text!r} is empty or holds a space", word=place)
        if word.startswith(_DOCUMENT):
            raise _unfit(sentence, f"the word {word!r} would be the mark between documents", word=place)
        if word.startswith("#") and place == 0:
            raise _unfit(sentence, f"the word {word!r} may be taken for a comment", word=place)
        lines.append(f"{word}\t{label}")
    stream.write("\n".join(lines) + "\n\n")


def _unfit(sentence: LabelledSentence, problem: str, *, word: int | None = None) -> InvalidInput:
    return InvalidInput(f"{problem}, which columns can't hold: use jsonl", sentence=sentence.id, word=word)
