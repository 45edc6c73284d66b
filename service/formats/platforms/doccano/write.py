"""Writes JSON Lines that doccano imports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from service.formats.io.json_objects import write_json_line
from service.formats.meta import build_document_field, get_extra_fields, get_format_meta, get_meta_text
from service.formats.platforms.doccano.read import PLATFORM
from service.formats.platforms.ids import to_platform_id
from service.formats.text.offsets import UTF16

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.contracts import LabelledSentence
    from service.formats.text.restored_text import WriteContext


def write(stream: TextIO, sentences: Iterable[LabelledSentence], context: WriteContext) -> None:
    for sentence in sentences:
        meta = get_format_meta(sentence, PLATFORM)
        restored = context.restore_text(sentence, PLATFORM, unit=UTF16)
        line = _build_id_field(sentence, meta)
        line[get_meta_text(meta, "text_field", "text")] = restored.text
        spans = [(*restored.to_format_offsets(entity), entity.label) for entity in restored.entities]
        field = get_meta_text(meta, "field", "label")
        if field == "entities":
            line[field] = [
                {"id": number, "label": label, "start_offset": start, "end_offset": end}
                for number, (start, end, label) in enumerate(spans, 1)
            ]
            line["relations"] = []
        else:
            line[field] = [list(span) for span in spans]
        if not meta:
            line |= build_document_field(sentence, meta)
        write_json_line(stream, line | get_extra_fields(meta))


def _build_id_field(sentence: LabelledSentence, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The id of doccano itself. A sentence that was read without one has an id that only counts the lines of its file."""
    if not meta:
        return {"id": sentence.id}
    identity = to_platform_id(sentence.id, PLATFORM)
    return {} if identity is None else {"id": identity}
