"""Writes CoNLL columns: `# id = …`, then a word, a tab and its label per line; `-DOCSTART-` between documents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TextIO

from service.errors import InvalidInput
from service.formats.plain.conll.read import DOCUMENT_MARK, LABEL_PATTERN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import WriteContext

_UNSAFE_IN_COLUMN: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_UNSAFE_IN_NAME: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")


def write(stream: TextIO, sentences: Iterable[LabelledSentence], _: WriteContext) -> None:
    document: str | None = None
    for sentence in sentences:
        if sentence.document != document:
            document = sentence.document
            stream.write(f"{DOCUMENT_MARK}\tO\n\n# document = {_check_name(sentence, 'document', document or '')}\n")
        stream.write("\n".join(_format_lines(sentence)) + "\n\n")


def _format_lines(sentence: LabelledSentence) -> list[str]:
    """The lines of a sentence. Raises if the columns would be read back as something else."""
    lines = []
    if sentence.id is not None:
        lines.append(f"# id = {_check_name(sentence, 'id', sentence.id)}")
    for index, (word, label) in enumerate(zip(sentence.tokens, sentence.labels, strict=True)):
        for column, text in (("word", word), ("label", label)):
            if not text or _UNSAFE_IN_COLUMN.search(text):
                raise _build_column_error(sentence, f"the {column} {text!r} is empty or holds a space", word=index)
        if word.startswith(DOCUMENT_MARK):
            raise _build_column_error(sentence, f"the word {word!r} would be the mark between documents", word=index)
        if word.startswith("#") and index == 0 and word != "#" and not LABEL_PATTERN.match(label):
            raise _build_column_error(sentence, f"the word {word!r} may be taken for a comment", word=index)
        lines.append(f"{word}\t{label}")
    return lines


def _check_name(sentence: LabelledSentence, field: str, name: str) -> str:
    """The name, if a comment line can hold it."""
    if _UNSAFE_IN_NAME.search(name) or name != name.strip():
        raise _build_column_error(sentence, f"its {field} can't be written in a line")
    return name


def _build_column_error(sentence: LabelledSentence, problem: str, *, word: int | None = None) -> InvalidInput:
    return InvalidInput(f"{problem}, which columns can't hold: use jsonl", sentence=sentence.id, word=word)
