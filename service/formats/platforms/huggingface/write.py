"""Writes JSON Lines that `datasets.load_dataset("json")` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from service.formats.io.json_objects import write_json_line
from service.formats.meta import build_document_field, build_id_field, get_extra_fields, get_format_meta
from service.formats.platforms.huggingface.read import PLATFORM

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import WriteContext


def write(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    """Writes labels as numbers if all sentences were read with the same numbers and every label has one; else names."""
    rows = list(sentences)
    name_lists = {_get_label_names(row) for row in rows}
    names = name_lists.pop() if len(name_lists) == 1 else ()
    unnumbered = sorted({label for row in rows for label in row.labels} - {*names}) if names else []
    if unnumbered:
        context.notes[f"labels are written as names: {', '.join(unnumbered[:5])} had no number"] += 1
    elif names:
        context.notes[f"labels are numbers, to be read with --label-names {','.join(names)}"] += 1
    numbers = {} if unnumbered else {name: number for number, name in reversed(list(enumerate(names)))}
    for row in rows:
        meta = get_format_meta(row, PLATFORM)
        tags = [numbers.get(label, label) for label in row.labels]
        line = build_id_field(row, meta) | {"tokens": list(row.tokens), "ner_tags": tags}
        write_json_line(stream, line | build_document_field(row, meta) | get_extra_fields(meta))


def _get_label_names(sentence: LabelledSentence) -> tuple[str, ...]:
    names = get_format_meta(sentence, PLATFORM).get("label_names")
    return tuple(map(str, names)) if isinstance(names, list) else ()
