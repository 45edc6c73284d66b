"""doccano: sequence labelling projects."""

from __future__ import annotations

from typing import Final

from service.formats.format import Format, build_signatures
from service.formats.platforms.doccano import read, write

FORMAT: Final = Format(
    name=read.PLATFORM,
    read=read.read,
    write=write.write,
    convert=read.from_line,
    signatures=build_signatures({"text", "label"}, {"text", "labels"}, {"text", "entities"}),
    record_keys=(("text",),),
)
